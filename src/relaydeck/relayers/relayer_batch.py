"""Changes of many relayers, prepared before the transaction that writes them.

Every other write waits while a transaction lasts. So encoding and sealing happen before it, and each table is written
with few statements. The result is the same as that of the functions in `relayer_changes.py`, one after another.
"""

from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Relayer
from relaydeck.relayers.relayer_changes import relayer_facts, stored_facts
from relaydeck.store.audit import AuditEntry
from relaydeck.store.change_context import ChangeContext, change_entries
from relaydeck.store.facts import to_json
from relaydeck.store.preparation import Preparation
from relaydeck.store.record_table import StoredValues
from relaydeck.store.removals import remove_rows

_ROW = f"SELECT {relayer_rows.COLUMNS}, seq FROM relayers WHERE id = :id"


class RelayerBatch:
    """Valid while none of these relayers has changed since the snapshot of the preparation."""

    def __init__(self, preparation: Preparation) -> None:
        self._preparation = preparation
        self._created: list[StoredValues] = []
        self._updated: list[StoredValues] = []
        self._removed: list[int] = []
        self._entries: list[AuditEntry] = []  # without time and actor, which the transaction adds

    def create(self, relayer: Relayer) -> None:
        self._created.append(self._stored_values(relayer))
        self._note("relayer.created", relayer.id, None, to_json(relayer_facts(relayer)))

    def update(self, relayer: Relayer) -> None:
        """Write every field except the identity and the state, which stay as they are."""
        row, after = self._preparation.row(_ROW, relayer.id), relayer_facts(relayer, settable_only=True)
        before = stored_facts(row, self._preparation.vault, settable_only=True)
        self._updated.append(self._stored_values(relayer))
        self._entries += change_entries(0, "", "relayer.updated", relayer.id, before=before, after=after)

    def delete(self, relayer_id: str) -> None:
        row = self._preparation.row(_ROW, relayer_id)
        self._removed.append(row.seq)
        self._note("relayer.deleted", relayer_id, to_json(stored_facts(row, self._preparation.vault)), None)

    def write(self, context: ChangeContext) -> None:
        table, transaction = relayer_rows.TABLE, context.transaction
        table.create_all(transaction, self._created, origin=context.origin, now=context.now)
        table.update_all(transaction, self._updated)
        remove_rows(transaction, "relayers", self._removed)
        context.append_all(self._entries)

    def _stored_values(self, relayer: Relayer) -> StoredValues:
        return relayer_rows.TABLE.stored_values(relayer, self._preparation.keyring, self._preparation.version)

    def _note(self, action: str, record: str, before: str | None, after: str | None) -> None:
        self._entries.append(AuditEntry(0, "", action, record, before, after))
