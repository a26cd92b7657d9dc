"""Keeps what this process remembers no older than any write acknowledged on this machine.

For a database that other machines write to as well, `remote_follower.py` does the same.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from relaydeck.errors import BadRequest
from relaydeck.store.database import Database, Reader, Row, Values
from relaydeck.store.listing import Listing

ReadRows = Callable[[str, Values], list[Row]]
Headers = Sequence[tuple[bytes, bytes]]
NO_SUCH_REVISION = "Relaydeck-Min-Revision is higher than any revision yet"


class Follows(Protocol):
    """Something remembered from a table of the database."""

    table: str

    def load(self, reader: Reader) -> None: ...

    def fetch_changes(self, read: ReadRows, seen: int, *, removed: bool) -> Any:
        """Read what was written after revision `seen`; `removed`: records of some table were removed too.

        In any thread: it changes nothing that is remembered.
        """

    def apply_changes(self, gathered: Any) -> None:
        """Remember what was gathered. In the event loop, without asking the database."""


def newest_of_each(followers: Sequence[Follows]) -> str:
    """A question for the revision of the database, of the latest removal, and of the latest write to each table."""
    tables = ("removals", *(follower.table for follower in followers))
    newest = ", ".join(f"(SELECT max(revision) FROM {table}) AS {table}" for table in tables)
    return f"SELECT revision, {newest} FROM clock"


def fetch_all_changes(
    newest: Row, followers: Sequence[Follows], read: ReadRows, seen: int
) -> list[tuple[Follows, Any]]:
    """What each follower has to take up, from the answer to `newest_of_each`."""
    removed = (newest.removals or 0) > seen
    return [
        (follower, follower.fetch_changes(read, seen, removed=removed))
        for follower in followers
        if removed or (getattr(newest, follower.table) or 0) > seen
    ]


class Follower:
    """`catch_up()` before an answer costs eight bytes' reading while nobody wrote.

    `catch_up_with_tokens()` is enough for what shows no record: it looks only when a token was changed.
    """

    def __init__(self, database: Database, followers: list[Follows], changed: Callable[[], None]) -> None:
        self._database = database
        self._followers = followers
        self._changed = changed
        self._last_write = database.write_signal.last
        self._last_token_write = database.write_signal.last_of_tokens
        self._seen_write = -1
        self._seen_token_write = -1
        self.revision = -1
        self._newest_of_each = newest_of_each(followers)

    def load(self) -> None:
        self._seen_write, self._seen_token_write = self._last_write(), self._last_token_write()
        self.revision = self._newest().revision
        for follower in self._followers:
            follower.load(self._database)

    def catch_up(self) -> Awaitable[Headers] | None:
        last = self._last_write()
        if last != self._seen_write:
            self.look()
            # Remembered from before the look: a write that came during it is heard again.
            self._seen_write = last
        return None

    def catch_up_with_tokens(self) -> Awaitable[Headers] | None:
        last = self._last_token_write()
        if last != self._seen_token_write:
            self.look()
            self._seen_token_write = last
        return None

    async def reach(self, revision: int) -> None:
        """Nothing older than `revision` is shown from now on. Raises BadRequest when nothing was written at it yet."""
        if self.revision < revision:
            self.look()
        if self.revision < revision:
            raise BadRequest(NO_SUCH_REVISION)

    def look(self) -> None:
        """Ask the database itself. Also done at an interval, for a writer killed before it rang.

        A write that comes between the questions below is taken up, and taken up again the next time.
        """
        newest = self._newest()
        if newest.revision == self.revision:
            return
        for follower, gathered in fetch_all_changes(newest, self._followers, self._database.read, self.revision):
            follower.apply_changes(gathered)
        self.revision = newest.revision
        self._changed()

    def _newest(self) -> Row:
        return self._database.read(self._newest_of_each, {})[0]

    def fill(self, listing: Listing, bounds: Callable[[int], tuple[int, int]]) -> None:
        """Read what a page still misses; `bounds` tells from the total where it lies."""
        with self._database.snapshot():
            self.look()
            listing.fill(*bounds(listing.total))
