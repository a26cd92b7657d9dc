"""The difference between declared and stored records, as steps in the order in which they are taken."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from relaydeck.provisioning.declared_records import Resource
from relaydeck.provisioning.mistakes import Mistake, Mistakes


class FieldChange(NamedTuple):
    """A field with its values before and after, as far as they may be shown; both are empty if they may not.

    One of them is empty if the record is created or removed.
    """

    name: str
    before: str = ""
    after: str = ""


class Create(NamedTuple):
    resource: Resource
    name: str
    record: msgspec.Struct
    fields: tuple[FieldChange, ...] = ()  # of a signer


class Change(NamedTuple):
    resource: Resource
    name: str
    record: msgspec.Struct
    fields: tuple[FieldChange, ...]


class Remove(NamedTuple):
    resource: Resource
    name: str
    title: str = ""  # the name of a relayer, which `name` identifies by its id
    fields: tuple[FieldChange, ...] = ()  # of a signer


Step = Create | Change | Remove


class Pinned(NamedTuple):
    """A record that the file declares or the plan removes: what a revision pins."""

    resource: Resource
    name: str
    declared: Any  # secrets included; None: it is removed
    stored: Any  # what is replaced; None: nothing


UNCHANGED = "unchanged"  # stored as declared: nothing is replaced


@dataclass
class Plan:
    """`revision` identifies the plan: see `plan_revision`."""

    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=Mistakes)
    generated_ids: set[str] = field(default_factory=set)  # of new relayers that the file gives no id
    pinned: list[Pinned] = field(default_factory=list)
    revision: str = ""

    def note_mistake(self, place: str, problem: str) -> None:
        self.mistakes.append(Mistake(place, problem))
