"""The resources that can be declared, and what a file declares of them."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import NODEFAULT

from relaydeck.fields import Field, Traits, fields_of
from relaydeck.identifiers import identifier_problem
from relaydeck.networks import network_rows
from relaydeck.notifications import notification_changes
from relaydeck.provisioning.mistakes import Mistake
from relaydeck.relayers import relayer_rows
from relaydeck.signers.signer_types import SHAPES
from relaydeck.store.record_table import RecordTable

Resource = Literal["networks", "signers", "notifications", "relayers"]
# In the order in which a plan creates them: a record comes after the records it refers to.
RESOURCES: tuple[Resource, ...] = ("networks", "signers", "notifications", "relayers")
IDENTITY: dict[Resource, str] = {"networks": "name", "signers": "id", "notifications": "id", "relayers": "id"}
# The config of a signer depends on its type, so that signers have no single record type.
TABLES: dict[Resource, RecordTable[Any]] = {
    "networks": network_rows.TABLE,
    "notifications": notification_changes.TABLE,
    "relayers": relayer_rows.TABLE,
}
RECORD_TYPES: dict[Resource, type[msgspec.Struct]] = {resource: table.record for resource, table in TABLES.items()}
SIGNER_FIELDS = (
    Field("id", str, NODEFAULT, "Identifier.", "ops", identifier_problem, Traits(None)),
    Field("type", Literal[tuple(SHAPES)], NODEFAULT, "Type of the signer.", "plain", None, Traits(None)),
    next(each for each in fields_of(RECORD_TYPES["relayers"]) if each.name == "labels"),
)
# The column of relayers that refers to each resource.
REFERRING: dict[str, str] = {
    each.traits.refers_to: each.name for each in fields_of(RECORD_TYPES["relayers"]) if each.traits.refers_to
}


# What a file may say of a relayer that it creates, besides its settable fields.
CREATED_AS = tuple(each for each in fields_of(RECORD_TYPES["relayers"]) if each.name == "paused")


@cache
def settable_fields(record: type[msgspec.Struct]) -> tuple[Field, ...]:
    return tuple(each for each in fields_of(record) if not each.traits.read_only)


class DeclaredRecord(NamedTuple):
    """A record of a file, checked as far as the file alone allows."""

    place: str
    resource: Resource
    name: str  # empty: a relayer that is identified by its name
    values: dict[str, Any]  # by field; Missing or Partial where a reference leads nowhere


class Mention(NamedTuple):
    """A record that another one refers to."""

    place: str
    resource: Resource
    record: str


@dataclass
class Declared:
    """A record with a mistake is not in `records`, but its name is in `places`."""

    mistakes: list[Mistake] = field(default_factory=list)
    records: list[DeclaredRecord] = field(default_factory=list)
    places: dict[Resource, dict[str, str]] = field(default_factory=lambda: {each: {} for each in RESOURCES})
    mentions: list[Mention] = field(default_factory=list)

    def of(self, resource: Resource) -> list[DeclaredRecord]:
        return [each for each in self.records if each.resource == resource]
