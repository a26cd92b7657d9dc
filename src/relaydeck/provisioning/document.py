"""Creates, changes and removes one record, with a JSON document that is read and planned like that of a file."""

from typing import Any

from relaydeck.errors import MistakenRecord, RecordExists
from relaydeck.provisioning.apply import take_step
from relaydeck.provisioning.declared_records import Resource
from relaydeck.provisioning.file import read_parsed
from relaydeck.provisioning.mistakes import Mistake, place_in
from relaydeck.provisioning.plan import Step
from relaydeck.provisioning.planner import NO_RULES, UrlRules, key_questions, make_plan
from relaydeck.provisioning.stored import Stored
from relaydeck.signers.known_addresses import KnownAddresses, Questions
from relaydeck.store.changes import ChangeContext

_UNKNOWN = "is not a known key"
_IN_THIS_FILE = ", in this file or stored"


class RecordDocument:
    """It must not contain references: a caller must not make the service read its environment or its files."""

    def __init__(self, resource: Resource, name: str, document: dict[str, Any], urls: UrlRules = NO_RULES) -> None:
        self.resource, self.name = resource, name
        self._urls = urls
        if resource == "networks":
            self._place = place_in("networks", name)
            content = {key: value for key, value in document.items() if key != "name"}
            self._declared = read_parsed({"networks": {name: content}}, None)
        else:
            self._place = f"{resource}[0]"
            self._declared = read_parsed({resource: [document]}, None)

    @property
    def mistakes(self) -> list[tuple[str, str]]:
        """Those that the document alone shows, each with its field."""
        return [self._described(each) for each in self._declared.mistakes]

    def questions(self, stored: Stored, bound_types: frozenset[str]) -> Questions:
        """What drivers have to be asked before `step`."""
        return key_questions(self._declared, stored, bound_types)

    def step(self, stored: Stored, addresses: KnownAddresses) -> tuple[Step | None, list[str]]:
        """The step to take, if any, and notes for the caller. Raises MistakenRecord with all mistakes, and no value."""
        plan = make_plan(self._declared, stored, addresses, prune=False, urls=self._urls)
        if mistakes := self.mistakes + [self._described(each) for each in plan.mistakes]:
            raise MistakenRecord(mistakes)
        notes = [each.removeprefix(f"{self._place}.") for each in plan.notes]
        return (plan.steps[0] if plan.steps else None), notes

    def write(self, context: ChangeContext, addresses: KnownAddresses, *, is_new: bool = False) -> list[str]:
        """Create the record, or change it. Return notes for the caller. Raises MistakenRecord, RecordExists."""
        stored = Stored(context.transaction.all, context.vault)
        step, notes = self.step(stored, addresses)
        if is_new and stored.exists(self.resource, self.name):
            raise RecordExists(self.resource[:-1])
        if step is not None:
            take_step(step, context)
        return notes

    def _described(self, mistake: Mistake) -> tuple[str, str]:
        place = mistake.place.removeprefix(self._place).removeprefix(".")
        if mistake.problem.startswith(_UNKNOWN):
            # The key is the caller's own text: it is not repeated.
            return "", f"unknown field{mistake.problem.removeprefix(_UNKNOWN)}"
        return place, mistake.problem.removesuffix(_IN_THIS_FILE)


def remove_record(context: ChangeContext, resource: Resource, name: str) -> None:
    """Raises StillInUse."""
    take_step(Step("remove", resource, name), context)


def merged(target: Any, patch: Any) -> Any:
    """A merge patch (RFC 7396): objects are merged, null removes, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def merge_patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The merge patch (RFC 7396) that makes one object the other."""
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    return dict.fromkeys(name for name in before if name not in after) | {
        name: merge_patch(before[name], value) if isinstance(value, dict) and name in before else value
        for name, value in changed.items()
    }
