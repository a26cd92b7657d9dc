"""The context of one change: its transaction, actor and time. Every change of a resource is made through one."""

from collections.abc import Sequence
from typing import NamedTuple

from relaydeck.store.audit import AuditEntry, AuditLog
from relaydeck.store.database import Transaction
from relaydeck.store.facts import Facts, difference, to_json
from relaydeck.store.references import refuse_while_used
from relaydeck.store.removals import remove_row
from relaydeck.store.vault import Vault


class ChangeContext(NamedTuple):
    transaction: Transaction
    audit: AuditLog
    actor: str  # `token:NAME`, `cli:USER` or `monitor`
    now: int
    origin: str = "api"  # `apply` for records that pruning may remove

    @property
    def vault(self) -> Vault:
        return self.audit.vault.refreshed(self.transaction)

    def created(self, resource: str, record: str, facts: Facts) -> None:
        self._append(f"{resource}.created", record, None, to_json(facts))

    def remove(self, resource: str, record: str, facts: Facts, *, identity: str = "id") -> None:
        """Delete the row of a record. Raises StillInUse while a relayer refers to it."""
        refuse_while_used(self.transaction, resource, record)
        remove_row(self.transaction, f"{resource}s", identity, record)
        self._append(f"{resource}.deleted", record, to_json(facts), None)

    def changed(self, action: str, record: str, before: Facts, after: Facts) -> None:
        """Records the fields that differ; no entry when none does."""
        entries = change_entries(self.now, self.actor, action, record, before=before, after=after)
        self.audit.append(self.transaction, entries)

    def performed(self, action: str, record: str, facts: Facts | None = None) -> None:
        """Records an action that changed no field."""
        self._append(action, record, None, None if facts is None else to_json(facts))

    def append_all(self, entries: Sequence[AuditEntry]) -> None:
        """Records entries that were prepared without a time and an actor."""
        mine = [AuditEntry(self.now, self.actor, each.action, each.record, each.before, each.after) for each in entries]
        self.audit.append(self.transaction, mine)

    def _append(self, action: str, record: str, before: str | None, after: str | None) -> None:
        self.audit.append(self.transaction, [AuditEntry(self.now, self.actor, action, record, before, after)])


def change_entries(now: int, actor: str, action: str, record: str, *, before: Facts, after: Facts) -> list[AuditEntry]:
    """The audit entry of a change, with the fields that differ; no entry when none does."""
    old, new = difference(before, after)
    return [AuditEntry(now, actor, action, record, old, new)] if old != new else []
