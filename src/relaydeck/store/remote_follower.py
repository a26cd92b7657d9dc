"""Keeps this process's memory close behind a database that other machines write to as well.

    a commit on any machine      notifies every process that listens
      -> fetch                   in a thread, in one snapshot: what is newer than our revision
      -> apply                   in the event loop, all of it at once

A notification only says when to refresh. Losing one, or the connection, delays the refresh until the next regular
one and loses no change, because every refresh compares revisions. Writes on this machine also send the write signal.

Invariant: a request that sees a new write signal is answered after a refresh that started after it read the signal,
unless the signal is that of a write of this process and no other process on the machine has written since the last
refresh. So its response includes every write that was acknowledged on this machine before the request.

A write of this process brings what memory lacks up to its revision with its commit, unless the server is so near that
a refresh costs less. So only requests that need a write of another process wait for a round trip.

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
from relaydeck.store.database import Row, RowReader, Values
from relaydeck.store.follower import (
    NO_SUCH_REVISION,
    FollowsTable,
    Headers,
    fetch_all_changes,
    load_all,
    newest_revisions_query,
)
from relaydeck.store.listing import Listing, paced
from relaydeck.store.postgres import CommitQueries, PostgresDatabase, Results
from relaydeck.store.postgres_reader import ChangeFeed
from relaydeck.store.write_signal import Cells, Sent

_MOST_ROWS = 300  # of a query: the writes of other processes wait for the commit


class RecordedReads:
    """Reads for a commit: the first pass records the statements, the second one returns what the commit returned."""

    def __init__(self) -> None:
        self.statements: dict[str, Values] = {}
        self._results: dict[str, list[Row]] | None = None

    def read(self, sql: str, values: Values) -> list[Row]:
        """Raises KeyError for a statement that was not recorded."""
        bounded = f"{sql} LIMIT {_MOST_ROWS}"
        if self._results is None:
            self.statements[bounded] = values
            return []
        return self._results[bounded]

    def replay(self, results: Results) -> bool:
        """False when a result may lack rows."""
        self._results = dict(zip(self.statements, results, strict=True))
        return all(len(rows) < _MOST_ROWS for rows in results)


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


REFRESH_SECONDS = 1.0  # between two regular refreshes
_UNAVAILABLE_SECONDS = 3.0  # without a successful refresh
_SILENT_SECONDS = 2.5  # of a query whether there are changes: with the pause before it, less than four
_LONGEST_RETRY = 4.0  # between two refreshes that fail
_LONGEST_WAIT = 2.0  # of a request, for a refresh
_NEAR_SECONDS = 0.005  # of a round trip: below it, a refresh costs less than a longer commit
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
        near_seconds: float = _NEAR_SECONDS,
    ) -> None:
        self._database, self._reader = database, database.open_reader()
        self._followers, self._newest_query = followers, newest_revisions_query(followers, *HISTORY_COLUMNS)
        self._on_change, self._report_problem, self._report_fork = on_change, report_problem, report_fork
        self._distrust_tokens = distrust_tokens  # called in the thread, when another history was found
        self._history = History()
        self.read_only = False  # the database is a standby, which accepts no write
        self._stale_seconds = stale_seconds
        self._monotonic = monotonic
        self._near_seconds, self._round_trip = near_seconds, 0.0
        self._last_write, self._last_token_write = database.write_signal.last, database.write_signal.last_of_tokens
        self._seen_write = self._seen_token_write = -1
        self.revision = -1
        self._thread = SideThreads(1, "follower")
        self._wanted = asyncio.Event()  # a refresh, before the next regular one
        self._feed: ChangeFeed | None = None
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
            newest = self._newest(self._history)
            load_all(self._followers, self._reader)
        self._remember(newest)
        self._fresh_at = self._monotonic()
        self._loop = asyncio.get_running_loop()
        self._database.at_commit, self._database.serves_requests = self._queries_at_commit, True
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
        signals = (self._last_write(), self._last_token_write())
        may_wait = not self.problem and not self._reloading
        is_current = signals == self._seen_signals or (may_wait and await self._wait_for_refresh())
        return self._age_headers(is_behind=not is_current)

    @property
    def _seen_signals(self) -> Cells:
        return self._seen_write, self._seen_token_write

    def _set_seen_signals(self, signals: Cells) -> None:
        self._seen_write, self._seen_token_write = signals

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
            if not problem and (self._feed is None or self._feed.closed):
                await self._listen()
            else:
                await self._pause(self._backoff.pause() if problem else REFRESH_SECONDS)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        except TimeoutError:
            return

    async def _refresh(self) -> StoreError | None:
        """Refresh until the result is recent: the answer of a server that hung may be as old as the query."""
        while (problem := await self._refresh_once()) is None and self.age >= REFRESH_SECONDS:
            pass
        if problem is None:
            self._set_problem("")
        return problem

    async def _refresh_once(self) -> StoreError | None:
        started, seen, signals = self._monotonic(), self._seen_signals, (self._last_write(), self._last_token_write())
        try:
            apply = await self._thread.run(self._fetch)
            apply()
        except StoreError as error:
            self._set_problem(str(error))
            self._stop_listening()  # its connection may be as silent
            return error
        except Exception as error:
            # Any error, a row that cannot be decoded for example, may be repaired: following must go on.
            self._set_problem(f"an unexpected {described(error)}")
            return StoreTrouble(f"an unexpected {described(error)}")
        self._fresh_at = started
        if self._seen_signals == seen:  # otherwise a commit has brought a newer one
            self._set_seen_signals(signals)
        return None

    def _fetch(self) -> Callable[[], None]:
        """In the thread. Returns what remains to be done in the event loop."""
        # The history from before the query: a commit may continue it meanwhile.
        history, seen, started = self._history, self.revision, self._monotonic()
        with self._reader.waiting(_SILENT_SECONDS):
            # Without a snapshot first, because most refreshes find nothing new.
            newest = self._newest(history)
            self._round_trip = self._monotonic() - started
            if newest.revision <= max(seen, self.revision) and not history.problem(newest):
                return partial(self._continue, newest, [])
            with self._reader.snapshot():
                newest = self._newest(history)
                with self._reader.waiting(_LONGEST_READ):
                    return self._read_changes(newest, history, seen)

    def _read_changes(self, newest: Row, history: History, seen: int) -> Callable[[], None]:
        problem = history.problem(newest)
        self._fetching, self._reloading = True, bool(problem)
        try:
            if problem:
                self._distrust_tokens()
                reader = PacedReader(self._reader)
                states = [(follower, follower.read_all(reader)) for follower in self._followers]
                return partial(self._replace_all, problem, newest, states)
            changes = fetch_all_changes(newest, self._followers, self._reader.read, seen)
            return partial(self._continue, newest, changes)
        finally:
            self._fetching = self._reloading = False

    def _newest(self, history: History) -> Row:
        return self._reader.read(self._newest_query, history.remembered)[0]

    def _replace_all(self, problem: str, newest: Row, states: list[tuple[FollowsTable, Any]]) -> None:
        """All in one step of the event loop: no request must see a part of each history."""
        known = self._database.newest_event
        for follower, state in states:
            follower.replace(state)
        self._remember(newest)
        self._on_change()
        self._report_fork(problem, known)

    def _continue(self, newest: Row, changes: list[tuple[FollowsTable, Any]]) -> None:
        if newest.revision < self.revision:
            return  # a commit has brought more than the refresh, which started before it
        for follower, each in changes:
            follower.apply_changes(each)
        if newest.revision != self.revision:
            self._on_change()
        self._remember(newest)

    # -- with a commit of this process ------------------------------------------------------------

    def _queries_at_commit(self) -> CommitQueries | None:
        """In the thread that commits. None: the server is near, or unavailable."""
        if self._problem or self._round_trip <= self._near_seconds:
            return None
        history, seen, reads = self._history, self.revision, RecordedReads()
        for follower in self._followers:
            follower.fetch_changes(reads.read, seen, removed=False)

        def accept(results: Results, sent: Sent) -> None:
            # Whatever is missing or wrong, the next refresh finds it.
            with suppress(Exception):
                newest = results[0][0]
                if reads.replay(results[1:]) and not history.problem(newest):
                    changes = fetch_all_changes(newest, self._followers, reads.read, seen)
                    self._loop.call_soon_threadsafe(self._take, newest, changes, sent)

        return CommitQueries([(self._newest_query, history.remembered), *reads.statements.items()], accept)

    def _take(self, newest: Row, changes: list[tuple[FollowsTable, Any]], sent: Sent) -> None:
        """In the event loop, before the write is answered: memory includes everything up to this commit."""
        self._continue(newest, changes)
        if sent.before == self._seen_signals:
            self._set_seen_signals(sent.after)  # no other process on this machine has written in between

    def _set_problem(self, problem: str) -> None:
        if bool(problem) != bool(self._problem):
            self._report_problem(problem)
        self._problem = problem

    async def _listen(self) -> None:
        """Listen, then refresh at once: earlier commits are not notified."""
        try:
            await self._thread.run(self._open_feed)
        except Exception:
            await self._pause(REFRESH_SECONDS)  # the regular refreshes continue, and report what is wrong
        else:
            assert self._feed is not None
            self._feed.watch(self._wanted.set)

    def _open_feed(self) -> None:
        """In the thread. Kept at once: whoever waits for it may be cancelled."""
        self._feed = self._database.listen()

    def _stop_listening(self) -> None:
        if self._feed is not None:
            self._feed.close()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._stop_listening()
        if self.problem:
            self._reader.suspend()  # a refresh may be waiting for a server that hangs
        if self._thread.end():
            self._reader.close()
            self._stop_listening()  # the thread may have opened another one
