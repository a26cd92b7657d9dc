"""One record's JSON document, as the admin API and the commands take it: read, planned and applied like a file's."""

from collections.abc import Callable, Iterable
from typing import Any

from relaydeck.errors import BadRequest
from relaydeck.provisioning.declared_records import Resource, field_names
from relaydeck.provisioning.file import read_parsed
from relaydeck.provisioning.mistakes import Mistake, place_in
from relaydeck.provisioning.plan import Step
from relaydeck.provisioning.planner import key_questions, make_plan
from relaydeck.provisioning.references import NO_REFERENCE, NoReferences, Resolver, as_reference
from relaydeck.provisioning.stored import Stored
from relaydeck.provisioning.url_rules import NO_RULES, UrlRules
from relaydeck.signers.known_addresses import KnownAddresses, Questions

_UNKNOWN = "is not a known key"
_IN_THIS_FILE = ", in this file or stored"
Document = dict[str, Any]


class RecordDocument:
    """Raises BadRequest, which contains every mistake and no value."""

    def __init__(
        self, resource: Resource, name: str, document: Document, resolver: Resolver, urls: UrlRules = NO_RULES
    ) -> None:
        self.resource, self.name = resource, name
        self._urls = urls
        self._place = place_in("networks", name) if resource == "networks" else f"{resource}[0]"
        content = document
        if resource == "networks":
            content = {key: value for key, value in document.items() if key != "name"}
        whole: Document = {"networks": {name: content}} if resource == "networks" else {resource: [content]}
        mistakes = self._mistakes(content, _is_null, "must not be null")
        if isinstance(resolver, NoReferences):
            # Refused here: a plan would take a reference for a missing secret and keep the stored one.
            mistakes += self._mistakes(content, _is_reference, NO_REFERENCE)
        self._declared, read_mistakes = read_parsed(whole, resolver)
        self._refuse(mistakes + read_mistakes)

    def _mistakes(self, content: Document, is_wrong: Callable[[Any], bool], problem: str) -> list[Mistake]:
        return [Mistake(self._place + place, problem) for place in _places(content, is_wrong)]

    def questions(self, stored: Stored, bound_types: frozenset[str]) -> Questions:
        """What drivers have to be asked before `step`."""
        return key_questions(self._declared, stored, bound_types)

    def step(self, stored: Stored, addresses: KnownAddresses) -> tuple[Step | None, list[str]]:
        """The step to take, if any, and notes for the caller."""
        plan = make_plan(self._declared, stored, addresses, prune=False, urls=self._urls)
        self._refuse(plan.mistakes)
        notes = [each.removeprefix(f"{self._place}.") for each in plan.notes]
        return (plan.steps[0] if plan.steps else None), notes

    def _refuse(self, mistakes: list[Mistake]) -> None:
        if mistakes:
            raise BadRequest("; ".join(self._described(each) for each in mistakes))

    def _described(self, mistake: Mistake) -> str:
        place = mistake.place.removeprefix(self._place).removeprefix(".")
        if mistake.problem.startswith(_UNKNOWN):
            # The key is the caller's own text: it is not repeated.
            return f"unknown field{mistake.problem.removeprefix(_UNKNOWN)}"
        return str(Mistake(place, mistake.problem.removesuffix(_IN_THIS_FILE)))


def _is_null(value: Any) -> bool:
    return value is None


def _is_reference(value: Any) -> bool:
    return as_reference(value) is not None


def _places(value: Any, is_wrong: Callable[[Any], bool], place: str = "") -> list[str]:
    """The places of wrong values in a document. `?` stands for a key that is no field: it is the caller's own text."""
    if is_wrong(value):
        return [place]
    parts: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        parts = ((f"{place}.{key if key in field_names() else '?'}", each) for key, each in value.items())
    elif isinstance(value, list):
        parts = ((f"{place}[{number}]", each) for number, each in enumerate(value))
    return [found for where, each in parts for found in _places(each, is_wrong, where)]
