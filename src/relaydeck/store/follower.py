"""Keeps what this process remembers no older than any write acknowledged on this machine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from relaydeck.store.database import Database


class Follows(Protocol):
    """Something remembered from the database."""

    def load(self) -> None: ...

    def follow(self, seen: int) -> None: ...


class Follower:
    """`catch_up()` before each answer costs eight bytes' reading while nobody wrote."""

    def __init__(self, database: Database, followers: list[Follows], changed: Callable[[], None]) -> None:
        self._database = database
        self._followers = followers
        self._changed = changed
        self._bell = database.bell.heard
        self._heard = -1
        self.revision = -1

    def load(self) -> None:
        self._heard = self._bell()
        with self.snapshot():
            self.revision = self._stored_revision()
            for follower in self._followers:
                follower.load()

    def catch_up(self) -> None:
        heard = self._bell()
        if heard != self._heard:
            self.look()
            # Remembered from before the look: a write that came during it is heard again.
            self._heard = heard

    def look(self) -> None:
        """Ask the database itself. Also done at an interval, for a writer killed before it rang."""
        with self.snapshot():
            self.follow_inside_snapshot()

    def follow_inside_snapshot(self) -> None:
        stored = self._stored_revision()
        if stored == self.revision:
            return
        for follower in self._followers:
            follower.follow(self.revision)
        self.revision = stored
        self._changed()

    def _stored_revision(self) -> int:
        revision: int = self._database.read("SELECT revision FROM clock")[0][0]
        return revision

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Every read inside sees the database at one moment."""
        reader = self._database.reader
        reader.execute("BEGIN")
        try:
            yield
        finally:
            reader.execute("COMMIT")
