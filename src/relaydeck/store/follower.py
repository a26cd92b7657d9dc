"""Keeps what this process remembers no older than any write acknowledged on this machine."""

from collections.abc import Callable
from typing import Protocol

from relaydeck.store.database import Database, Row


class Follows(Protocol):
    """Something remembered from a table of the database."""

    table: str

    def load(self) -> None: ...

    def follow(self, seen: int, *, removed: bool) -> None:
        """Take up what was written after revision `seen`; `removed`: records of some table were removed too."""


class Follower:
    """`catch_up()` before an answer costs eight bytes' reading while nobody wrote.

    `catch_up_with_tokens()` is enough for what shows no record: it looks only when a token was changed.
    """

    def __init__(self, database: Database, followers: list[Follows], changed: Callable[[], None]) -> None:
        self._database = database
        self._followers = followers
        self._changed = changed
        self._bell = database.bell.heard
        self._token_bell = database.bell.heard_of_tokens
        self.snapshot = database.snapshot  # every read inside sees the database at one moment
        self._heard = -1
        self._heard_of_tokens = -1
        self.revision = -1
        newest = (f"(SELECT max(revision) FROM {table})" for table in ("removals", *(f.table for f in followers)))
        self._newest_of_each = f"SELECT revision, {', '.join(newest)} FROM clock"

    def load(self) -> None:
        self._heard, self._heard_of_tokens = self._bell(), self._token_bell()
        self.revision = self._newest()[0]
        for follower in self._followers:
            follower.load()

    def catch_up(self) -> None:
        heard = self._bell()
        if heard != self._heard:
            self.look()
            # Remembered from before the look: a write that came during it is heard again.
            self._heard = heard

    def catch_up_with_tokens(self) -> None:
        heard = self._token_bell()
        if heard != self._heard_of_tokens:
            self.look()
            self._heard_of_tokens = heard

    def look(self) -> None:
        """Ask the database itself. Also done at an interval, for a writer killed before it rang.

        A write that comes between the questions below is taken up, and taken up again the next time.
        """
        stored, removal, *newest = self._newest()
        if stored == self.revision:
            return
        seen, removed = self.revision, (removal or 0) > self.revision
        for follower, its_newest in zip(self._followers, newest, strict=True):
            if removed or (its_newest or 0) > seen:
                follower.follow(seen, removed=removed)
        self.revision = stored
        self._changed()

    def _newest(self) -> Row:
        """The revision of the database, and of the latest write to each table."""
        return self._database.read(self._newest_of_each)[0]
