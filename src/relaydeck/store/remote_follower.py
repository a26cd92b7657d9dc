"""Keeps this process's memory close behind a database that other machines write to as well.

    a write on this machine sends the write signal, and half a second passes after the last look
      -> fetch                   in a thread, in one snapshot: what is newer than our revision
      -> apply                   in the event loop, all of it at once

Every refresh compares revisions, so none can miss a change.

Invariant: a request that sees a new write signal is answered after a refresh that started after it read the signal. So
its response includes every write that was acknowledged on this machine before the request.

While the database is unavailable, responses come from memory and state their age, until they are too old.

A database can also lose its last commits: a standby that had not received them is promoted, or a backup is restored.
Every refresh therefore compares the history of the database with what this process remembers of it. When it was not
continued, everything is loaded again: read in the thread, and replaced in the event loop all at once, so that no
request sees a part of each history. Until everything was read, memory stays as it was and states its age.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from relaydeck.errors import BadRequest, ServerFailure, StoreError, StoreTrouble, described
from relaydeck.process.background import Backoff, SideThreads
from relaydeck.store.database import Row, RowReader
from relaydeck.store.follower import (
    NO_SUCH_REVISION,
    FollowsTable,
    Headers,
    fetch_all_changes,
    load_all,
    newest_revisions_query,
)
from relaydeck.store.listing import Listing, paced
from relaydeck.store.postgres import PostgresDatabase


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
        self._seen_write = self._seen_token_write = -1
        self.revision = -1
        self._thread = SideThreads(1, "follower")
        self._wanted = asyncio.Event()  # a refresh, before the next regular one
        self._waiting: list[asyncio.Future[None]] = []
        self._fresh_at = monotonic()
        self._fetching = False  # changes are read and encoded: that the last refresh is long ago says nothing
        self._reloading = False  # everything is read again, which may take long
        self._problem, self._backoff = "", Backoff(_LONGEST_RETRY, monotonic=monotonic)
        self._task: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Load everything before the first response: from then on no response waits for the database."""
        self._seen_write, self._seen_token_write = self._last_write(), self._last_token_write()
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

    @property
    def problem(self) -> str:
        """Why the database is unavailable; empty when it is available."""
        return self._problem

    def catch_up(self) -> Awaitable[Headers] | None:
        if self._last_write() == self._seen_write and self._monotonic() - self._fresh_at < _UNAVAILABLE_SECONDS:
            return None
        return self._catch_up()

    def catch_up_with_tokens(self) -> Awaitable[Headers] | None:
        unchanged = self._last_token_write() == self._seen_token_write
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

    @property
    def _seen_signals(self) -> tuple[int, int]:
        return self._seen_write, self._seen_token_write

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
        while (left := until - loop.time()) > 0 and (self._problem or self._last_write() == self._seen_write):
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
        self._seen_write, self._seen_token_write = signals
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
        if bool(problem) != bool(self._problem):
            self._report_problem(problem)
        self._problem = problem

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.problem:
            self._reader.suspend()  # a refresh may be waiting for a server that hangs
        if self._thread.end():
            self._reader.close()
