"""Keeps what this process remembers close behind a database that other machines write to as well.

    a commit anywhere notifies       every process that listens is told the new revision
      -> look                        in a thread, at one snapshot: what each table has that is newer
      -> take up                     in the event loop, all of it at once

A notification only says when to look. One that is lost, or a connection that breaks, delays that until the
next regular look and hides nothing, because every look compares revisions. Writes of this machine ring the
write_signal as well: a request that hears it waits for a look that began after the ring.

While the database is away, what is remembered goes on being shown, with its age, until it is too old.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from relaydeck.errors import BadRequest, ServerFailure, StoreError, StoreTrouble
from relaydeck.side_threads import SideThreads
from relaydeck.store.database import Reader, Row
from relaydeck.store.follower import NO_SUCH_REVISION, Follows, Headers, fetch_all_changes, newest_of_each
from relaydeck.store.listing import Listing
from relaydeck.store.write_signal import WriteSignal

LOOK_SECONDS = 1.0  # between looks that nobody asked for
_AWAY_SECONDS = 3.0  # without a look that succeeded
_LONGEST_WAIT = 2.0  # of a request for a look

Announce = Callable[[str], None]  # why the database is away; empty when it is back


class ChangeFeed(Protocol):
    """A connection that is told of each commit."""

    def fileno(self) -> int: ...

    def consume(self) -> None:
        """Take in what came. Raises StoreTrouble when the connection broke."""

    def close(self) -> None: ...


class RemoteReader(Reader, Protocol):
    def abandon(self) -> None:
        """Break the connection off, whoever waits for it."""


class RemoteDatabase(Protocol):
    write_signal: WriteSignal

    def open_reader(self) -> RemoteReader: ...

    def listen(self) -> ChangeFeed:
        """Raises StoreTrouble."""


class RemoteFollower:
    def __init__(
        self,
        database: RemoteDatabase,
        followers: list[Follows],
        changed: Callable[[], None],
        *,
        stale_seconds: float,
        announce: Announce,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._reader = database.open_reader()
        self._followers = followers
        self._changed = changed
        self._stale_seconds = stale_seconds
        self._announce = announce
        self._monotonic = monotonic
        self._last_write = database.write_signal.last
        self._last_token_write = database.write_signal.last_of_tokens
        self._seen_write = -1
        self._seen_token_write = -1
        self.revision = -1
        self._newest_of_each = newest_of_each(followers)
        self._thread = SideThreads(1, "follower")
        self._listening: ChangeFeed | None = None
        self._news = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._fresh_at = monotonic()
        self._problem = ""
        self._tasks: list[asyncio.Task[None]] = []

    def load(self) -> None:
        """Everything, before the first answer: from then on no answer waits for the database."""
        self._seen_write, self._seen_token_write = self._last_write(), self._last_token_write()
        with self._reader.snapshot():
            self.revision = self._newest().revision
            for follower in self._followers:
                follower.load(self._reader)
        self._fresh_at = self._monotonic()
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._notice_silence())]

    # -- what requests ask ------------------------------------------------------------------------

    @property
    def age(self) -> float:
        """How many seconds ago the last look that succeeded began."""
        return self._monotonic() - self._fresh_at

    @property
    def problem(self) -> str:
        """Why the database is away; empty when it is there."""
        return self._problem or ("" if self.age < _AWAY_SECONDS else "the database does not answer")

    def catch_up(self) -> Awaitable[Headers] | None:
        if self._last_write() == self._seen_write and self._monotonic() - self._fresh_at < _AWAY_SECONDS:
            return None
        return self._caught_up()

    def catch_up_with_tokens(self) -> Awaitable[Headers] | None:
        if self._last_token_write() == self._seen_token_write and self._monotonic() - self._fresh_at < _AWAY_SECONDS:
            return None
        return self._caught_up()

    async def _caught_up(self) -> Headers:
        last, of_tokens = self._last_write(), self._last_token_write()
        if (
            (last, of_tokens) != (self._seen_write, self._seen_token_write)
            and not self.problem
            and await self._looked()
        ):
            self._seen_write, self._seen_token_write = last, of_tokens
        behind = (last, of_tokens) != (self._seen_write, self._seen_token_write)
        return self._told_age(behind=behind)

    def _told_age(self, *, behind: bool) -> Headers:
        """`behind`: a write of this machine was heard of and not seen."""
        age = self.age
        if age < _AWAY_SECONDS and not behind:
            return ()
        if age > self._stale_seconds:
            raise ServerFailure(f"the database has been away for {age:.0f} seconds, longer than is shown from memory")
        return ((b"relaydeck-stale", b"%d" % max(age, 1)),)

    async def reach(self, revision: int) -> None:
        """Nothing older than `revision` is shown from now on. Raises BadRequest when nothing was written at it yet."""
        if self.revision < revision and not await self._looked() and self.revision < revision:
            raise ServerFailure("the revision that was asked for cannot be waited for: the database is away")
        if self.revision < revision:
            raise BadRequest(NO_SUCH_REVISION)

    async def _looked(self) -> bool:
        """After a look that begins from now on; False when there was none in time, or it failed."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._news.set()
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                await answer
        except (TimeoutError, StoreError):
            return False
        return True

    def fill(self, listing: Listing, bounds: Callable[[int], tuple[int, int]]) -> None:
        raise AssertionError("everything was loaded before the first answer, and is taken up whole")

    # -- following --------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._news.clear()
            waiting, self._waiting = self._waiting, []
            problem = await self._look()
            for answer in waiting:
                if not answer.done():
                    answer.set_exception(problem) if problem else answer.set_result(None)
            if not problem and self._listening is None:
                await self._listen()
            else:
                await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._news.wait()
        except TimeoutError:
            return

    async def _look(self) -> StoreError | None:
        """Until it is known how things stand now: what a server that hung answers may be as old as the question."""
        while (problem := await self._look_once()) is None and self.age >= LOOK_SECONDS:
            pass
        if problem is None:
            self._note("")
        return problem

    async def _look_once(self) -> StoreError | None:
        began = self._monotonic()
        try:
            found = await self._thread.run(self._gather)
            if found is not None:
                self._take_up(*found)
        except StoreError as error:
            self._note(str(error))
            return error
        except Exception as error:
            # Whatever it is, it must not be the end of all looks: a row that cannot be read may be mended.
            self._note(f"an unexpected {type(error).__name__}")
            return StoreTrouble(f"an unexpected {type(error).__name__}")
        self._fresh_at = began
        return None

    async def _notice_silence(self) -> None:
        """A server that hangs fails no look: it only gives none back."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self._problem:
                self._note(self.problem)

    def _gather(self) -> tuple[int, list[tuple[Follows, Any]]] | None:
        # Asked outside a snapshot first: most looks find nothing.
        if self._newest().revision == self.revision:
            return None
        with self._reader.snapshot():
            newest = self._newest()
            return newest.revision, fetch_all_changes(newest, self._followers, self._reader.read, self.revision)

    def _newest(self) -> Row:
        return self._reader.read(self._newest_of_each, {})[0]

    def _take_up(self, revision: int, news: list[tuple[Follows, Any]]) -> None:
        for follower, gathered in news:
            follower.apply_changes(gathered)
        self.revision = revision
        self._changed()

    def _note(self, problem: str) -> None:
        if bool(problem) != bool(self._problem):
            self._announce(problem)
        self._problem = problem

    # -- listening --------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """And look again: what was committed before is not told."""
        try:
            self._listening = await self._thread.run(self._database.listen)
        except Exception:
            await self._pause()  # the regular looks go on, and tell what is wrong
            return
        asyncio.get_running_loop().add_reader(self._listening.fileno(), self._on_news)

    def _on_news(self) -> None:
        assert self._listening is not None
        try:
            self._listening.consume()
        except StoreError:
            self._stop_listening()
        self._news.set()

    def _stop_listening(self) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening.fileno())
            self._listening.close()
            self._listening = None

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._stop_listening()
        if self.problem:
            self._reader.abandon()  # a look may be waiting for a server that hangs
        if self._thread.end():
            self._reader.close()
