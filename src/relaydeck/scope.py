"""Labels of records, and the scope that limits a credential to some relayers and what belongs to them.

A relayer is inside a scope if it meets each criterion that the scope gives. A signer or a notification is inside if it
belongs to a relayer that is inside, or carries the labels of the scope; a network also if the scope lists it. Outside
of its scope, nothing exists for a credential. `store/scoped.py` says the same in SQL. For credentials of applications,
the records that closed protections cover are outside of every scope.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from relaydeck.fields import own_field as field
from relaydeck.fields import value_type
from relaydeck.identifiers import Identifier, identifier_problem

MOST_LABELS = 32
TOO_MANY_LABELS = f"labels must have at most {MOST_LABELS} entries, with those of the scope of the credential"
OUTSIDE = "it would be outside the scope of the credential"
SHARED_RECORD = "others may use this record: the scope of the credential neither lists it nor has its labels"
_MOST_NAMED = 1000
# None of these characters needs an escape in JSON or has a meaning in SQL: the store looks for a pair in the JSON text.
# At the end: `$` would accept a line feed there.
LABEL_PATTERN = "^[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$(?!\n)"
_LABEL = re.compile(LABEL_PATTERN)
LABEL_EXPECTED = "1 to 63 characters: letters and digits of ASCII, and between them also `-`, `_`, `.` and `/`"


def label_problem(text: str) -> str:
    """What is wrong with the key or the value of a label; empty when nothing is."""
    return "" if _LABEL.fullmatch(text) else f"must have {LABEL_EXPECTED}"


Label = Annotated[str, Meta(min_length=1, max_length=63, pattern=LABEL_PATTERN), value_type(label_problem)]
Labels = Annotated[dict[Label, Label], Meta(max_length=MOST_LABELS)]

# The field of a record.
OwnLabels = Annotated[
    Labels | UnsetType,
    field("Up to 32 labels, by which records are found and credentials limited.", example={"team": "payments"}),
]


def label_pair(key: str, value: str) -> str:
    """A label as it stands in the stored JSON text, and nowhere else in it."""
    return f'"{key}":"{value}"'


class Scope(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, dict=True):
    relayers: Annotated[
        Annotated[tuple[Identifier, ...], Meta(max_length=_MOST_NAMED)],
        field("Identifiers of relayers. Empty: any.", example=["sepolia-1"]),
    ] = ()
    networks: Annotated[
        Annotated[tuple[Identifier, ...], Meta(max_length=_MOST_NAMED)],
        field("Names of networks that relayers work on. Empty: any.", example=["sepolia"]),
    ] = ()
    labels: Annotated[Labels, field("Labels, all of which a record carries.", example={"team": "payments"})] = {}

    @cached_property
    def key(self) -> bytes:
        """Equal for scopes that mean the same."""
        return msgspec.json.encode((sorted({*self.relayers}), sorted({*self.networks}), sorted(self.labels.items())))

    def __str__(self) -> str:
        pairs = [f"{key}={value}" for key, value in self.labels.items()]
        named = {"relayers": self.relayers, "networks": self.networks, "labels": pairs}
        return "; ".join(f"{kind} {', '.join(each)}" for kind, each in named.items() if each)

    @property
    def problem(self) -> str:
        """What is wrong with it; empty when nothing is."""
        if not (self.relayers or self.networks or self.labels):
            return "must give relayers, networks or labels"
        if len(self.relayers) > _MOST_NAMED or len(self.networks) > _MOST_NAMED or len(self.labels) > MOST_LABELS:
            return f"must have at most {_MOST_NAMED} relayers, {_MOST_NAMED} networks and {MOST_LABELS} labels"
        names = (identifier_problem(each) for each in (*self.relayers, *self.networks))
        labels = (label_problem(each) for pair in self.labels.items() for each in pair)
        return next((each for each in (*names, *labels) if each), "")

    def carried_by(self, labels: Mapping[str, str] | UnsetType) -> bool:
        """Whether a record with these labels is inside by them."""
        return bool(self.labels) and labels is not UNSET and self.labels.items() <= labels.items()

    def may_create(self, kind: str) -> bool:
        """Whether a new record of that kind can be inside."""
        return bool(self.labels or kind == "relayer" or (kind == "network" and self.networks))

    def may_change(self, kind: str, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a record that is inside may be changed or deleted.

        Others may use what the credential sees only because its relayers use it. That does not depend on whether any
        do: a difference would tell.
        """
        if kind == "relayer":
            return True
        return self.carried_by(labels) if self.labels else kind == "network" and name in self.networks

    def has_relayer(self, relayer_id: str, network: str, labels: Mapping[str, str] | UnsetType) -> bool:
        return (
            (not self.relayers or relayer_id in self.relayers)
            and (not self.networks or network in self.networks)
            and (not self.labels or self.carried_by(labels))
        )

    def has_new(self, table: str, name: str, values: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
        """Whether a record with these values would be inside; only a relayer belongs to nothing else."""
        if table == "relayers":
            return self.has_relayer(name, values["network"], labels)
        return self.carried_by(labels) or (table == "networks" and name in self.networks)


class ClosedRecords(NamedTuple):
    """What a closed protection covers."""

    kinds: tuple[str, ...]  # empty: every kind
    scope: Scope | None  # None: every record

    def has_kind(self, kind: str) -> bool:
        return kind in (self.kinds or (kind,))


class OpenRecords(msgspec.Struct, frozen=True, dict=True):
    """What an application sees while records are closed: those inside its scope that no closed protection covers."""

    scope: Scope | None  # None: every record
    closed: tuple[ClosedRecords, ...]

    @cached_property
    def key(self) -> bytes:
        """Equal to that of no scope."""
        closed = [(each.kinds, each.scope and each.scope.key.decode()) for each in self.closed]
        return msgspec.json.encode((self.scope and self.scope.key.decode(), closed))

    def closed_to(self, kind: str) -> list[Scope | None]:
        """The scopes of the closed protections that cover records of that kind."""
        return [each.scope for each in self.closed if each.has_kind(kind)]

    def has_relayer(self, relayer_id: str, network: str, labels: Mapping[str, str] | UnsetType) -> bool:
        if self.scope is not None and not self.scope.has_relayer(relayer_id, network, labels):
            return False
        closed = self.closed_to("relayer")
        return not any(each is None or each.has_relayer(relayer_id, network, labels) for each in closed)

    def has_new(self, table: str, name: str, values: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
        if self.scope is not None and not self.scope.has_new(table, name, values, labels):
            return False
        closed = self.closed_to(table[:-1])
        return not any(each is None or each.has_new(table, name, values, labels) for each in closed)


Visible = Scope | OpenRecords  # what a credential sees, unless it sees every record
