"""The stored records, looked up one at a time, so that a small file is quick on a large database."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from relaydeck.errors import Damaged
from relaydeck.provisioning.declared_records import IDENTITY, REFERRING, TABLES, Resource
from relaydeck.signers import signer_changes
from relaydeck.signers.signer_types import NewSigner
from relaydeck.store.database import ReadRows, Row
from relaydeck.store.rows import in_list, slices
from relaydeck.store.scoped import EVERYTHING
from relaydeck.store.vault import Vault

_NAMES_AT_ONCE = 4096
ORIGIN = "apply"  # of the rows that pruning may remove


class StoredRecord(NamedTuple):
    record: msgspec.Struct
    damaged: frozenset[str] = frozenset()  # the fields that do not open; they have their defaults in `record`


class Stored:
    """`read` runs inside one snapshot or one transaction, so that all records are of one moment."""

    def __init__(self, read: ReadRows, vault: Vault) -> None:
        self._read = read
        self._vault = vault
        # Ten thousand relayers may share one signer, which is opened once. A cache of a bound method would be a cycle.
        self._signers: dict[str, NewSigner | Damaged | None] = {}
        self._found: dict[tuple[Resource, str], bool] = {}

    def _row(self, columns: str, resource: Resource, record: str) -> Row | None:
        sql = f"SELECT {columns} FROM {resource} WHERE {IDENTITY[resource]} = :record"
        rows = self._read(sql, {"record": record})
        return rows[0] if rows else None

    def exists(self, resource: Resource, record: str) -> bool:
        if (resource, record) not in self._found:
            self._found[resource, record] = self._row("1", resource, record) is not None
        return self._found[resource, record]

    def find(self, resource: Resource, record: str) -> StoredRecord | None:
        """A record of any resource but signers."""
        table = TABLES[resource]
        row = self._row(table.columns, resource, record)
        if row is None:
            return None
        try:
            return StoredRecord(table.from_row(row, self._vault))
        except Damaged:
            return StoredRecord(table.without_sealed(row), frozenset(table.sealed_fields))

    def labels(self, resource: Resource, record: str) -> dict[str, str]:
        row = self._row("labels", resource, record)
        return msgspec.json.decode(row.labels) if row and row.labels else {}

    def signer(self, signer_id: str) -> NewSigner | Damaged | None:
        if signer_id not in self._signers:
            self._signers[signer_id] = self._open_signer(signer_id)
        return self._signers[signer_id]

    def _open_signer(self, signer_id: str) -> NewSigner | Damaged | None:
        row = self._row(signer_changes.OPENED_COLUMNS, "signers", signer_id)
        if row is None:
            return None
        try:
            return signer_changes.opened(row, self._vault)
        except Damaged as damage:
            return damage.with_traceback(None)

    def applied_relayers_named(self, name: str) -> list[str]:
        """The ids of the relayers of that name that an apply created."""
        return self._applied_by_name.get(name, [])

    @cached_property
    def _applied_by_name(self) -> dict[str, list[str]]:
        return _by_name(self.applied_relayers.items())

    @cached_property
    def applied_relayers(self) -> dict[str, str]:
        """The ids and names of the relayers that an apply created, oldest first."""
        sql = "SELECT id, name FROM relayers WHERE origin = :origin ORDER BY seq"
        return {row.id: row.name for row in self._read(sql, {"origin": ORIGIN})}

    def other_relayers_named(self, names: Sequence[str]) -> dict[str, list[str]]:
        """The ids of the relayers of these names that no apply created.

        There is no index by name, and a query looks at every relayer: it asks for many names.
        """
        rows: list[Row] = []
        for _, some in slices(names, _NAMES_AT_ONCE):
            listed, values = in_list(some)
            sql = f"SELECT id, name FROM relayers WHERE origin <> :origin AND name IN ({listed}) ORDER BY seq"
            rows += self._read(sql, {"origin": ORIGIN, **values})
        return _by_name((row.id, row.name) for row in rows)

    def applied(self, resource: Resource) -> dict[str, dict[str, str]]:
        """The labels of every record of a resource that an apply created, by name, oldest first."""
        sql = f"SELECT {IDENTITY[resource]} AS record, labels FROM {resource} WHERE origin = :origin ORDER BY seq"
        rows = self._read(sql, {"origin": ORIGIN})
        return {row.record: msgspec.json.decode(row.labels) if row.labels else {} for row in rows}

    def referring(self, resource: Resource, record: str) -> list[str]:
        """The ids of the relayers that refer to a record."""
        sql = f"SELECT id FROM relayers WHERE {REFERRING[resource]} = :record ORDER BY seq"
        return [row.id for row in self._read(sql, {"record": record})]

    def count_referring(self, resource: Resource, record: str) -> int:
        """Also those outside the scope of a credential."""
        sql = f"{EVERYTHING}SELECT count(*) AS total FROM relayers WHERE {REFERRING[resource]} = :record"
        total: int = self._read(sql, {"record": record})[0].total
        return total


def _by_name(relayers: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for relayer_id, name in relayers:
        found[name].append(relayer_id)
    return dict(found)
