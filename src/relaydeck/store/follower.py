"""Keeps this process's memory no older than any write that was acknowledged on this machine.

`Follower` does so for a file, `RemoteFollower` for a server that other machines write to as well.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol

from relaydeck.errors import BadRequest, ServerFailure, StoreError, StoreTrouble, described
from relaydeck.process.background import Backoff, SideThreads
from relaydeck.store.database import Database, ReadRows, Row, RowReader
from relaydeck.store.listing import Listing, paced
from relaydeck.store.postgres import PostgresDatabase

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
        """As `RemoteFollower`. There is nothing to close."""


# -- On a server that other machines write to as well --
#     a write on this machine sends the write signal, or half a second passes after the last look
#       -> fetch                   in a thread, in one snapshot: what is newer than our revision
#       -> apply                   in the event loop, all of it at once
#
# Every refresh compares revisions, so none can miss a change.
#
# Invariant: a request that sees a new write signal is answered after a refresh that started after it read the signal.
# So its response includes every write that was acknowledged on this machine before the request.
#
# While the database is unavailable, responses come from memory and state their age, until they are too old.
#
# A database can also lose its last commits: a standby that had not received them is promoted, or a backup is restored.
# Every refresh therefore compares the history of the database with what this process remembers of it. When it was not
# continued, everything is loaded again: read in the thread, and replaced in the event loop all at once, so that no
# request sees a part of each history. Until everything was read, memory stays as it was and states its age.


class PacedReader:
    def __init__(self, reader: RowReader) -> None:
        self._reader = reader
        self.read = reader.read

    def stream(self, sql: str) -> Iterator[Row]:
        return paced(self._reader.stream(sql))


# The end of the audit log, the entry that this process remembers, and the server's timeline, which changes with each
# promotion. A standby writes nothing, so it has no timeline of its own.
HISTORY_COLUMNS = (
    "(SELECT max(seq) FROM audit) AS audit_end",
    "(SELECT hash FROM audit ORDER BY seq DESC LIMIT 1) AS audit_hash",
    "(SELECT hash FROM audit WHERE seq = :remembered) AS remembered_hash",
    "(SELECT max(seq) FROM events) AS newest_event",
    "CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline",
)


class History(NamedTuple):
    """What this process remembers of the database's past, to notice that it was not continued."""

    revision: int = -1
    audit: tuple[int, bytes] = (0, b"")
    timeline: str = ""

    @property
    def remembered(self) -> dict[str, Any]:
        return {"remembered": self.audit[0]}

    def problem(self, newest: Row) -> str:
        """How the history differs; empty when it was continued."""
        if newest.revision < self.revision:
            return f"its revision went back from {self.revision} to {newest.revision}"
        if self.audit[0] and newest.remembered_hash != self.audit[1]:
            return f"entry {self.audit[0]} of the audit log is missing or another one"
        if self.timeline and newest.timeline and newest.timeline != self.timeline:
            return "another server was promoted"
        return ""

    def continued(self, newest: Row) -> "History":
        return History(
            newest.revision, (newest.audit_end or 0, newest.audit_hash or b""), newest.timeline or self.timeline
        )


REFRESH_SECONDS = 0.5  # between two regular refreshes
_RECENT_SECONDS = 1.0  # since a refresh began whose result counts
_LOOK_SECONDS = 0.05  # between two looks at the write signal
_UNAVAILABLE_SECONDS = 3.0  # without a successful refresh
_SILENT_SECONDS = 2.5  # of a query whether there are changes: with the pause before it, less than four
_LONGEST_RETRY = 4.0  # between two refreshes that fail
_LONGEST_WAIT = 2.0  # of a request, for a refresh
_LONGEST_READ = 10.0  # of one query for changes, which may return a hundred thousand rows

ReportProblem = Callable[[str], None]  # why the database is unavailable; empty when it is available again
ReportFork = Callable[[str, int], None]  # how the history differs, and the newest event known of the one before


class RemoteFollower:
    def __init__(
        self,
        database: PostgresDatabase,
        followers: list[FollowsTable],
        on_change: Callable[[], None],
        *,
        stale_seconds: float,
        report_problem: ReportProblem,
        report_fork: ReportFork = lambda *_: None,
        distrust_tokens: Callable[[], None] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._reader = database, database.open_reader()
        self._followers, self._newest_query = followers, newest_revisions_query(followers, *HISTORY_COLUMNS)
        self._on_change, self._report_problem, self._report_fork = on_change, report_problem, report_fork
        self._distrust_tokens = distrust_tokens  # called in the thread, when another history was found
        self._history = History()
        self.read_only = False  # the database is a standby, which accepts no write
        self._stale_seconds = stale_seconds
        self._monotonic = monotonic
        self._last_write, self._last_token_write = database.write_signal.last, database.write_signal.last_of_tokens
        self._seen_signals = -1, -1
        self.revision = -1
        self._thread = SideThreads(1, "follower")
        self._wanted = asyncio.Event()  # a refresh, before the next regular one
        self._waiting: list[asyncio.Future[None]] = []
        self._fresh_at = monotonic()
        self._fetching = False  # changes are read and encoded: that the last refresh is long ago says nothing
        self._reloading = False  # everything is read again, which may take long
        self.problem = ""  # why the database is unavailable; empty when it is available
        self._backoff = Backoff(_LONGEST_RETRY, monotonic=monotonic)
        self._task: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Load everything before the first response: from then on no response waits for the database."""
        self._seen_signals = self._signals
        with self._reader.snapshot():
            newest = self._newest()
            load_all(self._followers, self._reader)
        self._remember(newest)
        self._fresh_at = self._monotonic()
        self._database.serves_requests = True
        self._task = asyncio.create_task(self._run())

    def _remember(self, newest: Row) -> None:
        self.revision, self.read_only = newest.revision, not newest.timeline
        self._database.newest_event = max(self._database.newest_event, newest.newest_event or 0)
        self._history = self._history.continued(newest)

    # -- for requests -----------------------------------------------------------------------------

    @property
    def age(self) -> float:
        """How many seconds ago the last successful refresh started."""
        return self._monotonic() - self._fresh_at

    def catch_up(self) -> Awaitable[Headers] | None:
        if self._last_write() == self._seen_signals[0] and self._monotonic() - self._fresh_at < _UNAVAILABLE_SECONDS:
            return None
        return self._catch_up()

    def catch_up_with_tokens(self) -> Awaitable[Headers] | None:
        unchanged = self._last_token_write() == self._seen_signals[1]
        # While many changes are fetched no other refresh can start: waiting for one would help nobody.
        if unchanged and (self._fetching or self._monotonic() - self._fresh_at < _UNAVAILABLE_SECONDS):
            return None
        return self._catch_up()

    async def _catch_up(self) -> Headers:
        # Read before the refresh is requested: a write that comes later changes them again.
        signals = self._signals
        may_wait = not self.problem and not self._reloading
        is_current = signals == self._seen_signals or (may_wait and await self._wait_for_refresh())
        return self._age_headers(is_behind=not is_current)

    @property
    def _signals(self) -> tuple[int, int]:
        return self._last_write(), self._last_token_write()

    def _age_headers(self, *, is_behind: bool) -> Headers:
        """`is_behind`: a write on this machine was signalled, but is not in memory yet."""
        age = self.age
        if age < _UNAVAILABLE_SECONDS and not is_behind:
            return ()
        if age > self._stale_seconds:
            raise ServerFailure(
                f"the database has been unavailable for {age:.0f} seconds, longer than lists are served from memory"
            )
        return ((b"relaydeck-stale", b"%d" % max(age, 1)),)

    async def reach(self, revision: int) -> None:
        """Include every write up to `revision` from now on. Raises BadRequest when there is no such revision yet."""
        if self.revision < revision and not await self._wait_for_refresh() and self.revision < revision:
            raise ServerFailure("the requested revision cannot be awaited: the database is unavailable")
        if self.revision < revision:
            raise BadRequest(NO_SUCH_REVISION)

    async def _wait_for_refresh(self) -> bool:
        """Wait for a refresh that starts after this call; False when it fails or takes too long."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._wanted.set()
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                await done
        except (TimeoutError, StoreError):
            return False
        return True

    def fill(self, listing: Listing, bounds: Callable[[int], tuple[int, int]]) -> None:
        raise AssertionError("every item was loaded before the first response")

    # -- refreshing -------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            # Taken before the refresh starts: a request that comes during it waits for the next one.
            self._wanted.clear()
            waiting, self._waiting = self._waiting, []
            problem = await self._refresh()
            for done in waiting:
                if not done.done():
                    done.set_exception(problem) if problem else done.set_result(None)
            await self._pause(self._backoff.pause() if problem else REFRESH_SECONDS)

    async def _pause(self, seconds: float) -> None:
        """Until a request wants a refresh, or a process of this machine has written; after a failure, so long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (left := until - loop.time()) > 0 and (self.problem or self._last_write() == self._seen_signals[0]):
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, _LOOK_SECONDS)):
                    await self._wanted.wait()
                    return

    async def _refresh(self) -> StoreError | None:
        """Refresh until the result is recent: the answer of a server that hung may be as old as the query."""
        while (problem := await self._refresh_once()) is None and self.age >= _RECENT_SECONDS:
            pass
        if problem is None:
            self._set_problem("")
        return problem

    async def _refresh_once(self) -> StoreError | None:
        started, signals = self._monotonic(), self._signals
        try:
            apply = await self._thread.run(self._fetch)
            apply()
        except StoreError as error:
            self._set_problem(str(error))
            return error
        except Exception as error:
            # Any error, a row that cannot be decoded for example, may be repaired: following must go on.
            self._set_problem(f"an unexpected {described(error)}")
            return StoreTrouble(f"an unexpected {described(error)}")
        self._fresh_at = started
        self._seen_signals = signals
        return None

    def _fetch(self) -> Callable[[], None]:
        """In the thread. Returns what remains to be done in the event loop."""
        with self._reader.waiting(_SILENT_SECONDS):
            if self._signals == self._seen_signals:  # as a rule, nothing is new
                newest = self._newest()
                if newest.revision == self.revision and not self._history.problem(newest):
                    return partial(self._continue, newest, [])
            with self._reader.snapshot():
                newest = self._newest()
                with self._reader.waiting(_LONGEST_READ):
                    return self._read_changes(newest)

    def _read_changes(self, newest: Row) -> Callable[[], None]:
        problem = self._history.problem(newest)
        self._fetching, self._reloading = True, bool(problem)
        try:
            if problem:
                self._distrust_tokens()
                reader = PacedReader(self._reader)
                states = [(follower, follower.read_all(reader)) for follower in self._followers]
                return partial(self._replace_all, problem, newest, states)
            changes = fetch_all_changes(newest, self._followers, self._reader.read, self.revision)
            return partial(self._continue, newest, changes)
        finally:
            self._fetching = self._reloading = False

    def _newest(self) -> Row:
        return self._reader.read(self._newest_query, self._history.remembered)[0]

    def _replace_all(self, problem: str, newest: Row, states: list[tuple[FollowsTable, Any]]) -> None:
        """All in one step of the event loop: no request must see a part of each history."""
        known = self._database.newest_event
        for follower, state in states:
            follower.replace(state)
        self._remember(newest)
        self._on_change()
        self._report_fork(problem, known)

    def _continue(self, newest: Row, changes: list[tuple[FollowsTable, Any]]) -> None:
        for follower, each in changes:
            follower.apply_changes(each)
        if newest.revision != self.revision:
            self._on_change()
        self._remember(newest)

    def _set_problem(self, problem: str) -> None:
        if bool(problem) != bool(self.problem):
            self._report_problem(problem)
        self.problem = problem

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.problem:
            self._reader.suspend()  # a refresh may be waiting for a server that hangs
        if self._thread.end():
            self._reader.close()
