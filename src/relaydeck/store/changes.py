"""Changes of records, each with its entry in the audit log: prepared and written one by one, or many together.

Every change of a resource is made through a `ChangeContext`: its transaction, actor and time. A single change is
prepared in the transaction and written at once. Every other write waits for the transaction, so many changes are read,
encoded and sealed in a snapshot, and put into temporary tables. The transaction then writes each table with one
statement, if the audit log shows that nobody has changed the same records since the snapshot.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from relaydeck.errors import BadRequest, Forbidden, NotPossible, RecordExists, RecordNotFound, StillInUse
from relaydeck.scope import MOST_LABELS, OUTSIDE, SHARED_RECORD, TOO_MANY_LABELS
from relaydeck.store import audit
from relaydeck.store.audit import AuditEntry, AuditLog, EntryContent, Head, StagedEntries, stage_entries
from relaydeck.store.database import ReadRows, Row, Transaction
from relaydeck.store.protection import Guard
from relaydeck.store.record_table import Facts, R, RecordTable, StoredValues, difference, record_facts, to_json
from relaydeck.store.rows import Stage, StagedRows, slices
from relaydeck.store.scoped import EVERYTHING
from relaydeck.store.sealing import Keyring
from relaydeck.store.vault import Vault

# A changed row carries its revision; a removed one leaves a row in `removals` instead, so that processes that keep it
# in memory can remove it there too. Those of the newest revisions are kept. The invariant:
#     clock.removals_pruned_to = P  means that every removal after revision P is still in the table
# So a process that has seen every write up to revision S misses nothing while P <= S. When P > S it cannot know what
# was removed in between, and compares what it holds with the rows that are there. P is written in the transaction that
# prunes, and read after the removals: pruning that happens between two reads is noticed.
KEPT_REVISIONS = 100_000
_NAMES_AT_ONCE = 4096


def remove_row(transaction: Transaction, table: str, seq: int) -> None:
    """Delete a record, so that running servers follow."""
    transaction.erases_secrets = True
    transaction.execute(f"DELETE FROM {table} WHERE seq = :seq", {"seq": seq})
    transaction.insert("removals", ("revision", "resource", "seq"), [(transaction.revision, table, seq)])
    prune_removals(transaction)


def remove_rows(transaction: Transaction, table: str, rows: StagedRows) -> None:
    """Like `remove_row`, for many records, which must exist; their one column is `seq`. Prunes nothing."""
    transaction.erases_secrets = True
    transaction.execute(f"DELETE FROM {table} WHERE seq IN (SELECT seq FROM {rows.table})")
    transaction.insert_all("removals", rows, {"resource": table, "revision": transaction.revision})


def prune_removals(transaction: Transaction) -> None:
    transaction.allow_long_statements()
    prune_to = {"revision": transaction.revision - KEPT_REVISIONS}
    if transaction.execute("DELETE FROM removals WHERE revision <= :revision", prune_to).rowcount:
        transaction.execute("UPDATE clock SET removals_pruned_to = :revision", prune_to)


def removed_since(read: ReadRows, table: str, seen: int) -> list[int] | None:
    """The sequence numbers removed after revision `seen`; None when some of those removals are pruned."""
    sql = "SELECT seq FROM removals WHERE revision > :seen AND resource = :table"
    removed = read(sql, {"seen": seen, "table": table})
    if read("SELECT removals_pruned_to FROM clock", {})[0].removals_pruned_to > seen:
        return None
    return [row.seq for row in removed]


class ChangeContext(NamedTuple):
    transaction: Transaction
    audit: AuditLog
    actor: str  # `token:NAME`, `person:NAME`, both with `via` in between, `cli:USER` or `monitor`
    now: int
    origin: str = "api"  # `apply` for records that pruning may remove
    guard: Guard | None = None  # of a change that is held up if it concerns a protected record

    @property
    def vault(self) -> Vault:
        return self.audit.vault.refreshed(self.transaction)

    @property
    def preparation(self) -> "Preparation":
        """To prepare a change that `write` makes in this transaction."""
        vault, head = self.vault, Head(*self.transaction.chain_end)
        return Preparation(self.transaction.all, vault, self.now, vault.keyring, head, self.transaction.revision)

    def write(self, change: "RowChange") -> None:
        """Make one change. Raises StillInUse while a relayer refers to a record to delete."""
        change = self._claimed(change)
        self.look(change.entries)
        transaction, (table, kind, record, values, *_) = self.transaction, change
        if kind == "created":
            values = values | self.new_values(table)
            transaction.insert(table, tuple(values), [tuple(values.values())])
        elif kind == "updated":
            transaction.erases_secrets = True
            values = values | {"revision": transaction.revision}
            changed = ", ".join(f"{column} = :{column}" for column in values if column != "seq")
            transaction.execute(f"UPDATE {table} SET {changed} WHERE seq = :seq", values)
        else:
            refuse_while_used(transaction, table[:-1], record)
            remove_row(transaction, table, values["seq"])
        if kind != "deleted":
            require_inside(transaction, table, record)
        self.look(change.entries)
        self.audit.append(transaction, [AuditEntry(self.now, self.actor, *each) for each in change.entries])

    def look(self, entries: Sequence[EntryContent]) -> None:
        """Note which protections cover these records, before and after they change."""
        if self.guard is not None:
            self.guard.look(self.transaction, entries)

    def _claimed(self, change: "RowChange") -> "RowChange":
        """What it creates carries the labels of its scope. Raises RecordExists, Forbidden, BadRequest."""
        if (statements := self.transaction.statements) is None:
            return change
        scope, table, record = statements.scope, change.table, change.record
        if change.kind != "created":
            if not scope.may_change(table[:-1], record, _stored_labels(self.transaction, table, record)):
                raise Forbidden(SHARED_RECORD)
            return change
        given = change.values.get("labels")
        labels = scope.labels | (msgspec.json.decode(given) if given else {})
        if len(labels) > MOST_LABELS:
            raise BadRequest(TOO_MANY_LABELS)
        if not scope.has_new(table, record, change.values, labels):
            raise Forbidden(OUTSIDE)
        named = {"record": record}
        if self.transaction.one(f"{EVERYTHING}SELECT 1 FROM {table} WHERE {_identity(table)} = :record", named):
            raise RecordExists(table[:-1])
        if not labels:
            return change
        after = msgspec.json.decode(change.after or "{}") | {"labels": labels}
        stored = msgspec.json.encode(labels).decode()
        return change._replace(values=change.values | {"labels": stored}, after=to_json(after))

    def new_values(self, table: str) -> StoredValues:
        """The values of a new row that are not the record's own."""
        values = {"origin": self.origin, "created_at": self.now, "revision": self.transaction.revision}
        return values | ({"set_locally": self.actor.startswith("cli:")} if table == "signers" else {})

    def changed(self, action: str, record: str, before: Facts, after: Facts) -> None:
        """Records the fields that differ; no entry when none does."""
        entries = change_entries(self.now, self.actor, action, record, before=before, after=after)
        self.audit.append(self.transaction, entries)

    def performed(self, action: str, record: str, facts: Facts | None = None) -> None:
        """Records an action that replaced no value."""
        after = None if facts is None else to_json(facts)
        self.audit.append(self.transaction, [AuditEntry(self.now, self.actor, action, record, None, after)])


def change_entries(now: int, actor: str, action: str, record: str, *, before: Facts, after: Facts) -> list[AuditEntry]:
    """The audit entry of a change, with the fields that differ; no entry when none does."""
    old, new = difference(before, after)
    return [AuditEntry(now, actor, action, record, old, new)] if old != new else []


def _identity(table: str) -> str:
    return "name" if table == "networks" else "id"


def _stored_labels(transaction: Transaction, table: str, record: str) -> dict[str, str]:
    row = transaction.one(f"SELECT labels FROM {table} WHERE {_identity(table)} = :record", {"record": record})
    return msgspec.json.decode(row.labels) if row and row.labels else {}


def require_inside(transaction: Transaction, table: str, record: str) -> None:
    """Raises Forbidden when a record that was just written is outside the scope of the credential."""
    if transaction.statements is None:
        return
    if not transaction.one(f"SELECT 1 FROM {table} WHERE {_identity(table)} = :record", {"record": record}):
        raise Forbidden(OUTSIDE)


_MOST_NAMED = 5
# Of relayers. Stated again because the store imports no record type; a test compares them with the declarations.
REFERRING_COLUMNS = {"network": "network", "signer": "signer_id", "notification": "notification_id"}


def refuse_while_used(transaction: Transaction, resource: str, record: str) -> None:
    """Raises StillInUse, which names the first relayers that refer to the record and counts all of them."""
    if resource not in REFERRING_COLUMNS:
        return  # nothing refers to it
    condition, values = f"WHERE {REFERRING_COLUMNS[resource]} = :record", {"record": record}
    if transaction.one(f"{EVERYTHING}SELECT 1 FROM relayers {condition} LIMIT 1", values):
        rows = transaction.all(f"SELECT id FROM relayers {condition} ORDER BY seq LIMIT {_MOST_NAMED}", values)
        counted = transaction.all(f"SELECT count(*) AS total FROM relayers {condition}", values)
        raise StillInUse(resource, [f"relayer {row.id}" for row in rows], counted[0].total)


Record = tuple[str, str]  # resource, as actions of the audit log name it, and identity
Kind = Literal["created", "updated", "deleted"]


class RowChange(NamedTuple):
    """`values` are by column. They include the `seq` of a row that exists, and nothing else of one to delete."""

    table: str
    kind: Kind
    record: str
    values: StoredValues
    before: str | None  # what the audit log records: JSON text
    after: str | None

    @property
    def entries(self) -> list[EntryContent]:
        """Its entry in the audit log. An update that changes no field has none."""
        content = f"{self.table[:-1]}.{self.kind}", self.record, self.before, self.after
        return [content] if self.before != self.after else []


class Preparation(NamedTuple):
    """What changes are prepared from. `read` runs inside one snapshot, or inside the transaction."""

    read: ReadRows
    vault: Vault
    now: int
    keyring: Keyring
    head: Head
    revision: int

    @classmethod
    def in_snapshot(cls, read: ReadRows, vault: Vault, now: int) -> "Preparation":
        head, revision = audit.head(lambda sql: read(sql, {})), read("SELECT revision FROM clock", {})[0].revision
        return cls(read, vault, now, vault.keyring_to_seal(read), head, revision)

    @property
    def version(self) -> int:
        """The number of audit entries: the version of the values that are sealed with it, see `sealed_columns.py`."""
        return self.head.seq

    def row(self, table: str, columns: str, identity: str, record: str) -> Row:
        """The stored row of a record, with its `seq`."""
        found = self.read(f"SELECT {columns}, seq FROM {table} WHERE {identity} = :record", {"record": record})
        if not found:
            raise RecordNotFound(table[:-1])
        return found[0]

    def create_record(self, table: RecordTable[R], record: R) -> RowChange:
        values = table.stored_values(record, self.keyring, self.version)
        name, facts = getattr(record, table.identity), record_facts(record, table.identity)
        return RowChange(table.name, "created", name, values, None, to_json(facts))

    def update_record(self, table: RecordTable[R], record: R) -> RowChange:
        """Write every field except the identity and the read-only ones."""
        name = getattr(record, table.identity)
        row = self.row(table.name, table.columns, table.identity, name)
        stored = table.stored_values(record, self.keyring, self.version)
        values = {column: stored[column] for column in table.changeable}
        before = table.stored_facts(row, self.vault, settable_only=True)
        after = record_facts(record, table.identity, settable_only=True)
        return RowChange(table.name, "updated", name, {"seq": row.seq} | values, *difference(before, after))

    def delete_record(self, table: RecordTable[R], name: str) -> RowChange:
        row = self.row(table.name, table.columns, table.identity, name)
        facts = table.stored_facts(row, self.vault)
        return RowChange(table.name, "deleted", name, {"seq": row.seq}, to_json(facts), None)

    def entries_since(self, transaction: Transaction) -> list[tuple[Record, str]] | None:
        """The records with an entry in the audit log since then, each with what was done: every change has an entry.

        None: the log does not continue the one that was read, as after the promotion of a standby that lacked its end,
        or a rotation may have retired the key that values were sealed with.
        """
        if self.keyring.active != transaction.newest_key:
            return None
        if transaction.chain_end == self.head:
            return []
        sql = f"{EVERYTHING}SELECT seq, hash, action, record FROM audit WHERE seq >= :seq ORDER BY seq"
        rows = transaction.all(sql, {"seq": self.head.seq})
        if self.head.seq and (not rows or (rows[0].seq, rows[0].hash) != self.head):
            return None
        return [_entry(row) for row in rows if row.seq > self.head.seq]


def _entry(row: Row) -> tuple[Record, str]:
    resource, _, change = row.action.partition(".")
    return (resource, row.record), change


class RowChanges:
    """Many changes, written together: first what is created, with `tables` in their order, at last what is deleted."""

    def __init__(self, tables: Sequence[str]) -> None:
        self._tables = tables
        self._rows: dict[tuple[str, Kind], list[StoredValues]] = defaultdict(list)
        self._names: dict[tuple[str, Kind], list[str]] = defaultdict(list)
        self._entries: list[EntryContent] = []
        self._staged: dict[tuple[str, Kind], StagedRows] = {}
        self._staged_entries: StagedEntries

    def add(self, change: RowChange) -> None:
        self._rows[change.table, change.kind].append(change.values)
        self._names[change.table, change.kind].append(change.record)
        self._entries += change.entries

    def stage(self, stage: Stage) -> None:
        """Put the rows and their audit entries into temporary tables. Before the transaction."""
        for (table, kind), rows in self._rows.items():
            values = [tuple(each.values()) for each in rows]
            self._staged[table, kind] = stage(table, tuple(rows[0]), values)
        self._staged_entries = stage_entries(stage, self._entries)

    def write(self, context: ChangeContext) -> None:
        """Inside the transaction."""
        transaction = context.transaction
        transaction.allow_long_statements()
        context.look(self._entries)
        self._refuse_taken(transaction)
        for table in self._tables:
            if rows := self._staged.get((table, "created")):
                transaction.insert_all(table, rows, context.new_values(table))
        for table in self._tables:
            if rows := self._staged.get((table, "updated")):
                transaction.erases_secrets = True
                transaction.update_all(table, rows, {"revision": transaction.revision})
        for table in reversed(self._tables):
            if rows := self._staged.get((table, "deleted")):
                remove_rows(transaction, table, rows)
        self._require_inside(transaction)
        context.look(self._entries)
        context.audit.append_staged(transaction, self._staged_entries, moment=context.now, actor=context.actor)
        if any(kind == "deleted" for _, kind in self._staged):
            prune_removals(transaction)

    def _refuse_taken(self, transaction: Transaction) -> None:
        """What exists outside the scope of the credential was planned as a creation. Raises NotPossible."""
        for table, kind, names in self._names_in_scope(transaction):
            if kind == "created" and (taken := transaction.present(table, _identity(table), names, everything=True)):
                raise NotPossible(f"the {table[:-1]} {min(taken)!r} cannot be created: its {_identity(table)} is taken")

    def _require_inside(self, transaction: Transaction) -> None:
        """Raises Forbidden. Planning has looked already."""
        for table, kind, names in self._names_in_scope(transaction):
            if kind != "deleted" and transaction.present(table, _identity(table), names) != {*names}:
                raise Forbidden(OUTSIDE)

    def _names_in_scope(self, transaction: Transaction) -> Iterator[tuple[str, Kind, Sequence[str]]]:
        """Some at a time. None, if the credential has no scope."""
        for (table, kind), names in self._names.items() if transaction.statements is not None else ():
            yield from ((table, kind, some) for _, some in slices(names, _NAMES_AT_ONCE))
