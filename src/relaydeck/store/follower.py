"""Keeps this process's memory no older than any write that was acknowledged on this machine.

`remote_follower.py` does the same for a database that other machines write to as well.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from relaydeck.errors import BadRequest
from relaydeck.store.database import Database, ReadRows, Row, RowReader
from relaydeck.store.listing import Listing

Headers = Sequence[tuple[bytes, bytes]]
NO_SUCH_REVISION = "Relaydeck-Min-Revision is higher than any revision yet"


class FollowsTable(Protocol):
    """Keeps something from a table of the database in memory."""

    table: str

    def read_all(self, reader: RowReader) -> Any:
        """Read everything. Called in any thread: it must not change anything in memory."""

    def replace(self, state: Any) -> None:
        """Keep what `read_all` returned, and nothing else. Called in the event loop: it must not read the database."""

    def fetch_changes(self, read: ReadRows, seen: int, *, removed: bool) -> Any:
        """Read what was written after revision `seen`. `removed`: records of some table were removed since then.

        Called in any thread: it must not change anything in memory.
        """

    def apply_changes(self, changes: Any) -> None:
        """Apply what `fetch_changes` returned. Called in the event loop: it must not read the database."""


def load_all(followers: Sequence[FollowsTable], reader: RowReader) -> None:
    """Before the first response. One table after the other, so that what was read is never held twice."""
    for follower in followers:
        follower.replace(follower.read_all(reader))


def newest_revisions_query(followers: Sequence[FollowsTable], *more: str) -> str:
    """A query for the revision of the database, of the newest removal, and of the newest write to each table."""
    tables = dict.fromkeys(("removals", *(follower.table for follower in followers)))
    newest = [f"(SELECT max(revision) FROM {table}) AS {table}" for table in tables]
    return f"SELECT {', '.join(['revision', *newest, *more])} FROM clock"


def fetch_all_changes(
    newest: Row, followers: Sequence[FollowsTable], read: ReadRows, seen: int
) -> list[tuple[FollowsTable, Any]]:
    """The changes for each follower of a table that was written, from the result of `newest_revisions_query`."""
    removed = (newest.removals or 0) > seen
    return [
        (follower, follower.fetch_changes(read, seen, removed=removed))
        for follower in followers
        if removed or (getattr(newest, follower.table) or 0) > seen
    ]


class Follower:
    """`catch_up()` before a response reads eight bytes while nothing was written.

    Invariant: after `catch_up()`, memory includes every write that was acknowledged on this machine before the call.
    A writer sends the write signal before it answers, and the signal is read before the database.

    `catch_up_with_tokens()` is enough for a response that shows no record: it refreshes only after a write of a token.
    """

    problem = ""  # a file is never away, as a server may be
    age = 0.0

    def __init__(self, database: Database, followers: list[FollowsTable], on_change: Callable[[], None]) -> None:
        self._database = database
        self._followers = followers
        self._on_change = on_change
        self._last_write = database.write_signal.last
        self._last_token_write = database.write_signal.last_of_tokens
        self._seen_write = -1
        self._seen_token_write = -1
        self.revision = -1
        self._newest_query = newest_revisions_query(followers)

    def load(self) -> None:
        # Signal, then revision, then tables: a write in between is applied again by the next refresh.
        self._seen_write, self._seen_token_write = self._last_write(), self._last_token_write()
        self.revision = self._newest().revision
        load_all(self._followers, self._database)

    def catch_up(self) -> Awaitable[Headers] | None:
        last = self._last_write()
        if last != self._seen_write:
            self.refresh()
            # The value from before the refresh: a write during it is noticed by the next call.
            self._seen_write = last
        return None

    def catch_up_with_tokens(self) -> Awaitable[Headers] | None:
        last = self._last_token_write()
        if last != self._seen_token_write:
            self.refresh()
            self._seen_token_write = last
        return None

    async def reach(self, revision: int) -> None:
        """Include every write up to `revision` from now on. Raises BadRequest when there is no such revision yet."""
        if self.revision < revision:
            self.refresh()
        if self.revision < revision:
            raise BadRequest(NO_SUCH_REVISION)

    def refresh(self) -> None:
        """Apply what was written since the last refresh.

        Also called at an interval, for a writer that was killed after its commit and before its signal. A write that
        is committed between the queries below may be applied now; the next refresh applies it again, which is harmless.
        """
        newest = self._newest()
        if newest.revision == self.revision:
            return
        for follower, changes in fetch_all_changes(newest, self._followers, self._database.read, self.revision):
            follower.apply_changes(changes)
        self.revision = newest.revision
        self._on_change()

    def _newest(self) -> Row:
        return self._database.read(self._newest_query, {})[0]

    def fill(self, listing: Listing, bounds: Callable[[int], tuple[int, int]]) -> None:
        """Read the items that a page still lacks. `bounds` returns the page's bounds for a total."""
        with self._database.snapshot():
            self.refresh()
            listing.fill(*bounds(listing.total))

    async def close(self) -> None:
        """As a remote follower. There is nothing to close."""
