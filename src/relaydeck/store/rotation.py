"""Seals every secret again with a new data key, and replaces the master key if told to, while the service runs.

A rotation may be stopped at any moment and continued later: each sealed value names the key that sealed it, so the
values show what is left to do. A running server reads the newest key inside its transaction and seals with that, so
no new value uses an old key; it opens values with any key, so it does not notice the rotation.

A new master key comes into use with a new data key, which it wraps, in one transaction:

    the file has the new key and the old one      services may read the file at any moment from now on
      -> begin       a data key under the new key; from this commit on it proves rows and the end of the audit log
      -> batches     rows that the old key proved, proven anew if the proof holds; values, sealed with the new data key
      -> finish      no data key is wrapped by the old key any more: from this commit on it opens and proves nothing
    the file has the new key
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from relaydeck.errors import Damaged
from relaydeck.store.audit import AuditEntry, AuditLog
from relaydeck.store.database import Row, Transaction
from relaydeck.store.open_store import Store
from relaydeck.store.sealed_columns import SEALED_COLUMNS, SealedColumn, seal_webhook_urls
from relaydeck.store.sealing import Place, ProvenRows
from relaydeck.store.vault import MasterKey

BATCH_ROWS = 500


class RotationReport(NamedTuple):
    resealed: int
    damaged: list[Damaged]
    retired: int
    proven: int = 0


class Rotation:
    """Call `begin`, then `batches` to its end, then `finish`. After a stop, the same calls continue it."""

    def __init__(self, store: Store, proven: Sequence[ProvenRows]) -> None:
        """`proven`: every table whose rows have proofs."""
        self._tables, self._proven = proven, 0
        self._database = store.database
        self._vault = store.vault
        self._newest = 0
        self._resealed = 0
        self._damaged: list[Damaged] = []

    def begin(self, now: int, actor: str = "rotation", master: MasterKey | None = None) -> int:
        """Add a data key, unless there is a rotation to continue. Returns how many values and proofs are left.

        `master` replaces the master key, unless it has done so before. Every service must be able to read it by now.
        """
        with self._database.transaction() as transaction:
            transaction.allow_long_statements()
            seal = partial(self._vault.seal, transaction=transaction)
            transaction.erases_secrets = seal_webhook_urls(transaction.execute, seal) > 0
            replaces = master is not None and master.reveal() != self._vault.refreshed(transaction).master.reveal()
            if replaces or (master is None and not self._is_in_progress(transaction)):
                self._vault.add_data_key(transaction, now, master)
                entry = AuditEntry(now, actor, "key.rotated", "master key" if replaces else "")
                AuditLog(self._vault).append(transaction, [entry])
            self._newest = transaction.newest_key
        tables = [each.table for each in self._tables] if self._vault.proofs.has_older else []
        proofs: int = sum(self._database.read(f"SELECT count(*) AS total FROM {each}")[0].total for each in tables)
        return proofs + sum(self._count_older(column) for column in SEALED_COLUMNS)

    def _count_older(self, column: SealedColumn) -> int:
        rows = self._database.read(
            f"SELECT count(*) AS total FROM {column.table} WHERE substr({column.column}, 2, 4) <> :key",
            {"key": _in_header(self._newest)},
        )
        count: int = rows[0].total
        return count

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[int]:
        """Each step seals some values again, in a transaction of its own, and yields how many it processed."""
        if self._vault.proofs.has_older:
            for table in self._tables:
                yield from self._prove_again(table, rows)
        for column in SEALED_COLUMNS:
            after = 0
            while True:
                with self._database.transaction() as transaction:
                    transaction.allow_long_statements()
                    found = _older(transaction, column, self._newest, after, rows)
                    for row in found:
                        self._reseal(transaction, column, row)
                if found:
                    after = found[-1].seq
                    yield len(found)
                if len(found) < rows:
                    break

    def _prove_again(self, table: ProvenRows, rows: int) -> Iterator[int]:
        # Rows that are added meanwhile have proofs under the new key.
        after, last = 0, self._database.read(f"SELECT max(seq) AS last FROM {table.table}")[0].last or 0
        while True:
            with self._database.transaction() as transaction:
                transaction.allow_long_statements()
                found = table.read(transaction, after, last, rows)
                for row in found:
                    self._renew(transaction, table, row)
            if not found:
                return
            after = found[-1].seq
            yield len(found)

    def _renew(self, transaction: Transaction, table: ProvenRows, row: Row) -> None:
        """A proof that does not hold stays as it is."""
        proofs, proven = self._vault.proofs.fresh(transaction), table.proven(tuple(row)[2:])
        for kind in table.kinds or (table.table,):
            if proof := proofs.renewed(row.proof, kind, proven):
                values = {"proof": proof, "seq": row.seq}
                transaction.execute(f"UPDATE {table.table} SET {table.column} = :proof WHERE seq = :seq", values)
                self._proven += table.column == "proof"  # a token has another one, of who made it

    def _reseal(self, transaction: Transaction, column: SealedColumn, row: Row) -> None:
        place = column.place_of(row)
        try:
            plain = self._vault.open(row.sealed, place)
        except Damaged as damage:
            self._damaged.append(damage)  # not changed: it may still be repaired
            return
        # Revision and version stay the same: no visible value changed.
        transaction.execute(
            f"UPDATE {column.table} SET {column.column} = :sealed WHERE seq = :seq",
            {"sealed": self._vault.seal(plain, place, transaction), "seq": row.seq},
        )
        self._resealed += 1

    def finish(self) -> RotationReport:
        """Remove the data keys that no value uses any more, and what else depends on an old master key."""
        with self._database.transaction() as transaction:
            transaction.allow_long_statements()
            transaction.erases_secrets = True
            unused = [each for each in _older_keys(transaction) if not _values_under(transaction, each)]
            for key_id in unused:
                transaction.execute("DELETE FROM data_keys WHERE id = :id", {"id": key_id})
            self._vault.refreshed(transaction).retire_older(transaction)
        self._vault.look_again()
        return RotationReport(self._resealed, self._damaged, len(unused), self._proven)

    def _is_in_progress(self, transaction: Transaction) -> bool:
        """Whether an older key can still be retired. A key that only damaged values use is never retired."""
        for key_id in _older_keys(transaction):
            values = _values_under(transaction, key_id)
            if not values or any(self._opens(sealed, place) for sealed, place in values):
                return True
        return False

    def _opens(self, sealed: bytes, place: Place) -> bool:
        try:
            self._vault.open(sealed, place)
        except Damaged:
            return False
        return True


def _older_keys(transaction: Transaction) -> list[int]:
    return [row.id for row in transaction.all("SELECT id FROM data_keys ORDER BY id")][:-1]


def _older(transaction: Transaction, column: SealedColumn, newest: int, after: int, rows: int) -> list[Row]:
    return transaction.all(
        f"SELECT seq, {column.selected} FROM {column.table}"
        f" WHERE seq > :after AND substr({column.column}, 2, 4) <> :key ORDER BY seq LIMIT :rows",
        {"after": after, "key": _in_header(newest), "rows": rows},
    )


def _values_under(transaction: Transaction, key_id: int) -> list[tuple[bytes, Place]]:
    """Some of the values that a key sealed: enough to decide whether it is in use, and whether any of them opens."""
    found = []
    for column in SEALED_COLUMNS:
        rows = transaction.all(
            f"SELECT {column.selected} FROM {column.table} WHERE substr({column.column}, 2, 4) = :key LIMIT :rows",
            {"key": _in_header(key_id), "rows": BATCH_ROWS},
        )
        found += [(row.sealed, column.place_of(row)) for row in rows]
    return found


def _in_header(key_id: int) -> bytes:
    """A key id as a sealed value contains it, from the second byte on."""
    return key_id.to_bytes(4, "big")
