"""Protected records: those that change only with the approval of a second person, and how a change of one is noticed.

A protection covers what a credential with its scope would see: relayers by id, network or label, and the networks,
signers and notifications that belong to them or carry the labels. If it is closed, applications do not see these.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

import msgspec

from relaydeck.credential import Credential
from relaydeck.roles import APPLICATIONS
from relaydeck.scope import ClosedRecords, OpenRecords, Scope
from relaydeck.store.audit import EntryContent
from relaydeck.store.database import ReadRows, Row, RowReader, Transaction
from relaydeck.store.rows import slices

_AT_ONCE = 4096


class Protection(msgspec.Struct, frozen=True):
    name: str
    kinds: tuple[str, ...]  # of records; empty: every kind
    scope: Scope | None  # None: every record


def read_scope(stored: str | None) -> Scope | None:
    return None if stored is None else msgspec.json.decode(stored, type=Scope)


def _protection(row: Row) -> Protection:
    return Protection(row.name, tuple(msgspec.json.decode(row.kinds)), read_scope(row.scope))


def protections(read: ReadRows) -> list[Protection]:
    return [_protection(row) for row in read("SELECT name, kinds, scope FROM protections ORDER BY seq", {})]


class Guard:
    """Looks at the records that a transaction changes, before and after, and notes which protections cover them."""

    def __init__(self, read: ReadRows) -> None:
        self.protections = protections(read)
        self.covering: set[str] = set()  # the names of protections
        self.revision = ""  # of the plan, if the change is one

    def look(self, transaction: Transaction, entries: Iterable[EntryContent]) -> None:
        """`entries`: those of the changes in the audit log."""
        by_kind: dict[str, list[str]] = defaultdict(list)
        for action, record, *_ in entries:
            by_kind[action.partition(".")[0]].append(record)
        for each in self.protections:
            with transaction.within(each.scope):
                if each.name not in self.covering and any(
                    _finds_any(transaction, kind, records)
                    for kind, records in by_kind.items()
                    if kind in (each.kinds or (kind,))
                ):
                    self.covering.add(each.name)


def _finds_any(transaction: Transaction, kind: str, records: list[str]) -> bool:
    column = "name" if kind == "network" else "id"
    return any(transaction.present(f"{kind}s", column, some) for _, some in slices(records, _AT_ONCE))


def closed_records(read: ReadRows) -> tuple[ClosedRecords, ...]:
    return tuple(
        ClosedRecords(each.kinds, each.scope)
        for each in map(_protection, read("SELECT name, kinds, scope FROM protections WHERE closed ORDER BY seq", {}))
    )


class ClosedProtections:
    """Follows the closed protections, and keeps what each credential in memory sees as they are."""

    table = "protections"

    def __init__(self) -> None:
        self._closed: tuple[ClosedRecords, ...] = ()
        self._in_memory: list[Callable[[], Iterable[Credential]]] = []

    def concern(self, in_memory: Callable[[], Iterable[Credential]]) -> None:
        """`in_memory`: the credentials that change when the protections do."""
        self._in_memory.append(in_memory)

    def limit(self, credential: Credential) -> None:
        """Let a credential see what it may see now."""
        is_limited = self._closed and credential.role in APPLICATIONS
        credential.visible = OpenRecords(credential.scope, self._closed) if is_limited else credential.scope

    def read_all(self, reader: RowReader) -> tuple[ClosedRecords, ...]:
        return closed_records(reader.read)

    def replace(self, closed: tuple[ClosedRecords, ...]) -> None:
        self._closed = closed
        for in_memory in self._in_memory:
            for each in in_memory():
                self.limit(each)

    def fetch_changes(self, read: ReadRows, _seen: int, *, removed: bool) -> tuple[ClosedRecords, ...]:
        return closed_records(read)

    def apply_changes(self, closed: tuple[ClosedRecords, ...]) -> None:
        if closed != self._closed:
            self.replace(closed)
