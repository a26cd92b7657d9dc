"""The difference between declared and stored records, as steps in the order in which they are taken."""

from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from relaydeck.provisioning.declared_records import Resource
from relaydeck.provisioning.mistakes import Mistake


class FieldChange(NamedTuple):
    """A field with its values before and after, as far as they may be shown; both are empty if they may not."""

    name: str
    before: str = ""
    after: str = ""


class Create(NamedTuple):
    resource: Resource
    name: str
    record: msgspec.Struct


class Change(NamedTuple):
    resource: Resource
    name: str
    record: msgspec.Struct
    fields: tuple[FieldChange, ...]


class Remove(NamedTuple):
    resource: Resource
    name: str
    title: str = ""  # the name of a relayer, which `name` identifies by its id


Step = Create | Change | Remove


@dataclass
class Plan:
    """`revision` identifies the plan: see `plan_revision`."""

    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    generated_ids: set[str] = field(default_factory=set)  # of new relayers that the file gives no id
    revision: str = ""

    def note_mistake(self, place: str, problem: str) -> None:
        self.mistakes.append(Mistake(place, problem))
