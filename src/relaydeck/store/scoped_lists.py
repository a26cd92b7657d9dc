"""Knows which items of the read model a credential sees: those inside its scope that are not closed.

The first list for a scope reads in a thread what is inside. Changes of records then move them into each scope that is
kept, or out of it; after too many at once every scope is read again when it is used.

Invariant: a scope that is kept includes every change that the listings include. So what is applied to these while a
scope is read is applied to it afterwards, and it is kept when the listings include what was read.
"""

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import closing
from functools import partial

import msgspec

from relaydeck.process.background import SideThreads
from relaydeck.scope import OpenRecords, Scope, Visible
from relaydeck.store.changes import removed_since
from relaydeck.store.database import Reader, ReadRows, Row, RowReader
from relaydeck.store.listing import Listing
from relaydeck.store.scoped import ScopedStatements

MOST_SCOPES = 100
MOST_ENTRIES = 200_000  # of all scopes together, unless a single one has more: about 150 bytes each
MOST_CHANGES = 300  # at once, because the event loop compares each one with each scope
_ROWS = {
    "relayers": "SELECT own.seq, own.id, own.network, own.labels, signers.seq AS signer"
    " FROM relayers own JOIN signers ON signers.id = own.signer_id",
    "signers": "SELECT own.seq, own.labels FROM signers own",
}
Changes = tuple[list[int], list[Row]] | None  # removed sequence numbers, and changed rows; None: not known


class Inside:
    """The relayers inside one scope, each with its signer, and the signers that carry its labels."""

    def __init__(self, scope: Scope) -> None:
        self.scope, self.is_kept = scope, True  # not kept: it does not follow changes any more
        self.parts: tuple[Inside, ...] = (self,)
        self._signer_of, self._carrying = dict[int, int](), dict[int, int]()
        self._sorted: dict[str, array[int]] = {}

    def __len__(self) -> int:
        return len(self._signer_of) + len(self._carrying)

    def found(self, table: str) -> Collection[int]:
        """The sequence numbers of what is inside."""
        return {*self._signer_of.values(), *self._carrying} if table == "signers" else self._signer_of

    def numbers(self, listing: Listing) -> "array[int]":
        """The sequence numbers of what is inside, in order."""
        if listing.table not in self._sorted:
            self._sorted[listing.table] = array("q", sorted(self.found(listing.table)))
        return self._sorted[listing.table]

    def apply(self, table: str, changes: Changes) -> None:
        self.is_kept = self.is_kept and changes is not None
        removed, changed = changes or ([], [])
        kept = self._signer_of if table == "relayers" else self._carrying
        for seq, signer in (dict.fromkeys(removed) | {row.seq: self._signer(table, row) for row in changed}).items():
            if kept.get(seq) != signer:
                self._sorted.clear()
                kept.pop(seq, None)
                kept |= {} if signer is None else {seq: signer}

    def _signer(self, table: str, row: Row) -> int | None:
        """That of a relayer inside, or the signer itself if it carries the labels."""
        labels = msgspec.json.decode(row.labels) if row.labels else {}
        if table == "signers":
            return row.seq if self.scope.carried_by(labels) else None
        return row.signer if self.scope.has_relayer(row.id, row.network, labels) else None


class InsideOpen:
    """The relayers and signers inside a scope, or all, without those that closed protections cover."""

    def __init__(self, visible: OpenRecords) -> None:
        self.is_kept = True
        self._inside = None if visible.scope is None else Inside(visible.scope)
        closed = {each.scope.key: Inside(each.scope) for each in visible.closed if each.scope is not None}
        self._closed = {
            table: [None if each is None else closed[each.key] for each in visible.closed_to(table[:-1])]
            for table in _ROWS
        }
        self.parts = (*(() if self._inside is None else (self._inside,)), *closed.values())
        self._sorted: dict[str, array[int]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def numbers(self, listing: Listing) -> "array[int]":
        """The sequence numbers of what is open, in order."""
        if listing.table not in self._sorted:
            self._sorted[listing.table] = array("q", self._open(listing))
        return self._sorted[listing.table]

    def _open(self, listing: Listing) -> Iterable[int]:
        closed, gone = self._closed[listing.table], set[int]()
        for each in closed:
            if each is None:
                return ()
            gone.update(each.found(listing.table))
        inside = listing.numbers if self._inside is None else self._inside.numbers(listing)
        return (each for each in inside if each not in gone)

    def apply(self, table: str, changes: Changes) -> None:
        self.is_kept = self.is_kept and changes is not None
        self._sorted.clear()
        for each in self.parts:
            each.apply(table, changes)


def _make_inside(visible: Visible) -> Inside | InsideOpen:
    return Inside(visible) if isinstance(visible, Scope) else InsideOpen(visible)


def read_inside(visible: Visible, reader: Reader) -> tuple[int, Inside | InsideOpen]:
    """The revision of the database, and what is inside then. In any thread; closes the reader."""
    inside = _make_inside(visible)
    with closing(reader), reader.snapshot():
        revision: int = reader.read("SELECT revision FROM clock")[0].revision
        for part in inside.parts:
            statements = ScopedStatements(part.scope)
            for table, rows in _ROWS.items():
                found = reader.read(f"{rows} WHERE {statements.conditions[table]}", statements.values)
                part.apply(table, ([], found))
    return revision, inside


class KeptScopes:
    """What is inside the scopes that were used last. `reach`: lets the listings include a revision."""

    def __init__(self, open_reader: Callable[[], Reader], reach: Callable[[int], Awaitable[None]]) -> None:
        self._open_reader, self._reach, self._turn = open_reader, reach, asyncio.Lock()
        self._kept: dict[bytes, Inside | InsideOpen] = {}  # the one that was used least recently first
        self._missed: list[tuple[str, Changes]] | None = None  # while a scope is read
        self._thread = SideThreads(1, "scopes")
        self.close = self._thread.end

    async def find(self, visible: Visible) -> Inside | InsideOpen:
        """Valid until the caller awaits; it has missed changes unless it is kept. Raises StoreError, ServerFailure."""
        inside = self._kept.pop(visible.key, None)
        if inside is None:
            async with self._turn:
                inside = self._kept.pop(visible.key, None) or await self._read(visible)
        if inside.is_kept:
            self._kept[visible.key] = inside
            self._evict()
        return inside

    async def _read(self, visible: Visible) -> Inside | InsideOpen:
        missed: list[tuple[str, Changes]] = []
        self._missed = missed
        try:
            revision, inside = await self._thread.run(partial(read_inside, visible, self._open_reader()))
            await self._reach(revision)
        finally:
            self._missed = None
        for each in missed:
            inside.apply(*each)
        return inside

    def _evict(self) -> None:
        kept = self._kept
        while len(kept) > 1 and (len(kept) > MOST_SCOPES or sum(map(len, kept.values())) > MOST_ENTRIES):
            kept.pop(next(iter(kept))).is_kept = False

    def fetch(self, table: str, read: ReadRows, seen: int, *, removed: bool) -> Changes:
        if not self._kept and self._missed is None:
            return None
        gone = removed_since(read, table, seen) if removed else []
        some = f"SELECT seq FROM {table} WHERE revision > :seen LIMIT {MOST_CHANGES + 1}"
        rows = read(f"{_ROWS[table]} WHERE own.seq IN ({some})", {"seen": seen})
        return None if gone is None or len(gone) + len(rows) > MOST_CHANGES else (gone, rows)

    def apply(self, table: str, changes: Changes) -> None:
        if self._missed is not None:
            self._missed.append((table, changes))
        for inside in self._kept.values():
            inside.apply(table, changes)
        self._kept = {} if changes is None else self._kept
        self._evict()


class ScopedTable:
    """Follows a table for the scopes that are kept. One is read when it is used, not at the start."""

    def __init__(self, table: str, scopes: KeptScopes) -> None:
        self.table, self.read_all = table, _read_nothing
        self.fetch_changes, self.apply_changes = partial(scopes.fetch, table), partial(scopes.apply, table)
        self.replace = self.apply_changes


def _read_nothing(_reader: RowReader) -> None:
    return None
