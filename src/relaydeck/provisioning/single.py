"""One record on its own, as the admin API and the commands take it: read, planned and made so like a file's."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from relaydeck.errors import BadRequest
from relaydeck.provisioning.declared import Declared, Resource
from relaydeck.provisioning.mistakes import Mistake, inside
from relaydeck.provisioning.plan import Step
from relaydeck.provisioning.planner import make_plan
from relaydeck.provisioning.read_file import read_document
from relaydeck.provisioning.references import Missing, Reference, Resolver, as_reference
from relaydeck.provisioning.stored import Stored
from relaydeck.provisioning.tables import Table
from relaydeck.relayers.model import Policies
from relaydeck.secret import Secret

_UNKNOWN = "is not a known key"
_NO_REFERENCE = "must be a string: references are for files"
_IN_THIS_FILE = ", in this file or stored"
# A key that is none of these is the caller's own and may be anything: it is not repeated.
_WORDS = {
    *("id", "name", "type", "url", "signing_key", "weight", "network", "network_type", "address", "signer_id"),
    *("notification_id", "custom_rpc_urls", "policies", *Policies.__struct_fields__, "chain_id", "native_symbol"),
    *("rpc_urls", "fee_tokens", "decimals", "margin_percent", "rate", "fixed", "feed", "max_age", "inverse"),
    *("native_usd", "token_usd"),
}
Document = dict[str, Any]


class NoReferences(Resolver):
    """Who asks over the network may not have the service read its environment or its files."""

    def __init__(self) -> None:
        super().__init__({}, Path())

    def resolve(self, reference: Reference, place: str) -> Secret | Missing:
        return Missing(place, _NO_REFERENCE)


class Single:
    """One record's document. Raises BadRequest, which tells the mistakes without quoting a value."""

    def __init__(self, resource: Resource, name: str, document: Document, resolver: Resolver) -> None:
        self._place = inside("networks", name) if resource == "networks" else f"{resource}[0]"
        content = document
        if resource == "networks":
            content = {key: value for key, value in document.items() if key != "name"}
        whole: Document = {"networks": {name: content}} if resource == "networks" else {resource: [content]}
        mistakes = [Mistake(self._place + place, "must not be null") for place in _places(content, _is_null)]
        if isinstance(resolver, NoReferences):
            # Refused here: where a value is stored, one that is only missing would leave it as it is.
            mistakes += [Mistake(self._place + place, _NO_REFERENCE) for place in _places(content, _is_reference)]
        self._declared: Declared = read_document(Table(whole, "", mistakes, resolver))
        self._refuse(mistakes)

    def step(self, stored: Stored) -> tuple[Step | None, list[str]]:
        """What is to do, if anything, and what to tell beside it."""
        plan = make_plan(self._declared, stored, prune=False)
        self._refuse(plan.mistakes)
        notes = [each.removeprefix(f"{self._place}.") for each in plan.notes]
        return (plan.steps[0] if plan.steps else None), notes

    def _refuse(self, mistakes: list[Mistake]) -> None:
        if mistakes:
            raise BadRequest("; ".join(self._told(each) for each in mistakes))

    def _told(self, mistake: Mistake) -> str:
        place = mistake.place.removeprefix(self._place).removeprefix(".")
        if mistake.problem.startswith(_UNKNOWN):
            # The name is the caller's own and may be anything.
            return f"unknown field{mistake.problem.removeprefix(_UNKNOWN)}"
        return str(Mistake(place, mistake.problem.removesuffix(_IN_THIS_FILE)))


def _is_null(value: Any) -> bool:
    return value is None


def _is_reference(value: Any) -> bool:
    return as_reference(value) is not None


def _places(value: Any, looked_for: Callable[[Any], bool], place: str = "") -> list[str]:
    """Where in a document something stands."""
    if looked_for(value):
        return [place]
    parts: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        parts = ((f"{place}.{key if key in _WORDS else '?'}", each) for key, each in value.items())
    elif isinstance(value, list):
        parts = ((f"{place}[{number}]", each) for number, each in enumerate(value))
    return [found for where, each in parts for found in _places(each, looked_for, where)]


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396: objects are merged, null removes, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result
