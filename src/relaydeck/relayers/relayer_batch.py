"""Changes of many relayers, prepared before the transaction that writes them.

Every other write waits while a transaction lasts. So encoding and sealing happen before it, and each table is written
with few statements; a large batch is also staged in the database. The result is the same as that of the functions in
`relayer_changes.py`, one after another.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Relayer
from relaydeck.relayers.relayer_changes import relayer_facts, stored_facts
from relaydeck.store.audit import AuditEntry, StagedEntries, stage_entries
from relaydeck.store.change_context import ChangeContext, change_entries
from relaydeck.store.database import Row
from relaydeck.store.facts import to_json
from relaydeck.store.preparation import Preparation
from relaydeck.store.record_table import StoredValues
from relaydeck.store.removals import remove_rows
from relaydeck.store.row_sets import Rows, RowSet, Stage

_TABLE = relayer_rows.TABLE
_INSERTED = tuple(_TABLE.columns.split(", "))
_ROW = f"SELECT {relayer_rows.COLUMNS}, seq FROM relayers WHERE id = :id"


class RelayerBatch:
    """Valid while none of these relayers has changed since the snapshot of the preparation."""

    def __init__(self, preparation: Preparation) -> None:
        self._preparation = preparation
        self._created: list[StoredValues] = []
        self._updated: list[tuple[Row, StoredValues]] = []
        self._removed: list[int] = []
        self._entries: list[AuditEntry] = []  # without time and actor, which the transaction adds
        self._staged: dict[str, Rows] = {}
        self._staged_entries: list[StagedEntries] | None = None
        self.removes_later = False  # in `remove_rest`

    def __len__(self) -> int:
        return len(self._created) + len(self._updated) + len(self._removed)

    def create(self, relayer: Relayer) -> None:
        self._created.append(self._stored_values(relayer))
        self._note("relayer.created", relayer.id, None, to_json(relayer_facts(relayer)))

    def update(self, relayer: Relayer) -> None:
        """Write every field except the identity and the state, which stay as they are."""
        row, after = self._preparation.row(_ROW, relayer.id), relayer_facts(relayer, settable_only=True)
        before = stored_facts(row, self._preparation.vault, settable_only=True)
        self._updated.append((row, self._stored_values(relayer)))
        self._entries += change_entries(0, "", "relayer.updated", relayer.id, before=before, after=after)

    def delete(self, relayer_id: str) -> None:
        row = self._preparation.row(_ROW, relayer_id)
        self._removed.append(row.seq)
        self._note("relayer.deleted", relayer_id, to_json(stored_facts(row, self._preparation.vault)), None)

    def stage(self, stage: Stage, *, rows_too: bool) -> None:
        """Before the transaction. `rows_too`: nothing is written early, so relayers are staged like audit entries."""
        self._staged_entries = stage_entries(stage, self._entries)
        if rows_too:
            self._staged = {kind: stage("relayers", rows) for kind, rows in self._rows().items()}

    def write(self, context: ChangeContext) -> None:
        with self._entries_appended(context):
            self._write_rows(context)

    def _write_rows(self, context: ChangeContext) -> None:
        transaction, rows = context.transaction, self._staged or dict[str, Rows](self._rows())
        if created := rows.get("created"):
            _TABLE.create_all(transaction, created, origin=context.origin, now=context.now)
        if updated := rows.get("updated"):
            _TABLE.update_all(transaction, updated)
        if not self.removes_later and (removed := rows.get("removed")):
            remove_rows(transaction, "relayers", removed)

    def remove_rest(self, context: ChangeContext) -> None:
        """Remove what `write` has left."""
        if self.removes_later and (removed := self._rows().get("removed")):
            remove_rows(context.transaction, "relayers", removed)

    @contextmanager
    def _entries_appended(self, context: ChangeContext) -> Iterator[None]:
        if self._staged_entries is None:
            yield
            context.append_all(self._entries)
            return
        staged, log = self._staged_entries, context.audit
        with log.append_staged(context.transaction, staged, moment=context.now, actor=context.actor):
            yield

    def _rows(self) -> dict[str, RowSet]:
        """By what happens to them."""
        columns = self._changed_columns()
        rows = {
            "created": RowSet(_INSERTED, [tuple(each.values()) for each in self._created]),
            "updated": RowSet(
                ("seq", *columns), [(row.seq, *map(values.__getitem__, columns)) for row, values in self._updated]
            ),
            "removed": RowSet(("seq",), [(seq,) for seq in self._removed]),
        }
        return {kind: each for kind, each in rows.items() if each.rows}

    def _changed_columns(self) -> list[str]:
        """Those that some relayer needs: an index of a column that is not written stays as it is."""
        changeable = _TABLE.changeable
        return [name for name in changeable if any(getattr(row, name) != new[name] for row, new in self._updated)]

    def _stored_values(self, relayer: Relayer) -> StoredValues:
        return _TABLE.stored_values(relayer, self._preparation.keyring, self._preparation.version)

    def _note(self, action: str, record: str, before: str | None, after: str | None) -> None:
        self._entries.append(AuditEntry(0, "", action, record, before, after))
