"""The rate limit across replicas: the same buckets, held by one limit server.

Requests that arrive while a command is in progress share the next one, so a busy worker needs few round trips and one
connection. When the server does not respond in time, the worker uses the buckets of its own machine until the server
responds again: no request waits for a server that is known to be away. Only the scheme, host and port of its address
are ever shown, and its errors only in our own words: its own messages may quote a password.
"""

import asyncio
import hashlib
import re
import ssl
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from relaydeck.credential import Credential
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.metrics import LIMITS_ALONE, LIMITS_FALLBACKS
from relaydeck.http.ratelimit import Allowance, LimitDecision, RateLimiter, after_request
from relaydeck.log import Log
from relaydeck.process.background import Backoff
from relaydeck.secret import Secret
from relaydeck.web_addresses import shown_address

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection


T = TypeVar("T")
_GRACE_SECONDS = 0.02
BUCKET_PREFIX = "{relaydeck}:limit:"  # the part in braces puts all buckets into one slot of a cluster
_PROBED_BUCKET = f"{BUCKET_PREFIX}probe"


class LimitServerError(Exception):
    """Why the limit server cannot be used, in our words."""


class LimitClient:
    """Runs one script over a single connection of the library: its connection pool costs twice as much per command."""

    def __init__(self, url: Secret, password_file: Path | None, timeout_seconds: float) -> None:
        self._url = url
        self._password_file = password_file
        self._timeout = timeout_seconds
        self._script = Path(__file__).with_name("shared_limit.lua").read_text("utf-8")
        self._digest = hashlib.sha1(self._script.encode(), usedforsecurity=False).hexdigest()
        self._connection: AbstractConnection | None = None

    @property
    def shown(self) -> str:
        parts = urlsplit(self._url.reveal())
        return f"unix://{parts.path}" if parts.scheme == "unix" else shown_address(self._url.reveal())

    async def connect(self) -> None:
        """Open a new connection and run the script on a bucket of its own, which expires at once.

        This loads the script, and shows whether it may run and the server accepts writes.
        """
        # In a thread: the import takes a tenth of a second, and the worker serves requests meanwhile.
        await asyncio.to_thread(import_module, "redis.asyncio")
        await self.close()
        await self._in_time(self._connect())

    async def _connect(self) -> None:
        self._connection = self._new_connection()
        await self._connection.connect()  # type: ignore[no-untyped-call]
        await self._send("EVAL", self._script, 1, _PROBED_BUCKET, 1, 1, 0)

    def _new_connection(self) -> "AbstractConnection":
        from redis.asyncio import ConnectionPool
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        # The older protocol needs fewer round trips to connect. `_in_time` limits the time of each command.
        options: dict[str, Any] = {
            "protocol": 2,
            "driver_info": None,
            "socket_timeout": None,
            "retry": Retry(NoBackoff(), 0),
        }
        if self._password_file is not None:
            options["password"] = self._password_file.read_text("utf-8").strip()
        # The schemes of Valkey are those of Redis under another name.
        pool = ConnectionPool.from_url(re.sub("^valkey", "redis", self._url.reveal()), **options)
        connection: AbstractConnection = pool.make_connection()  # type: ignore[no-untyped-call]
        return connection

    async def take(self, rate: int, burst: int, asked: dict[str, int]) -> list[int]:
        """Take requests from buckets. Returns the level of each before that, in millionths of a request."""
        return await self._in_time(self._take([len(asked), *asked, rate, burst, *asked.values()]))

    async def _take(self, arguments: list[str | int]) -> list[int]:
        from redis.exceptions import NoScriptError

        try:
            return await self._send("EVALSHA", self._digest, *arguments)
        except NoScriptError:  # the server was restarted, or its scripts were flushed
            return await self._send("EVAL", self._script, *arguments)

    async def _send(self, *command: str | int) -> list[int]:
        assert self._connection is not None
        await self._connection.send_command(*command)
        levels: list[int] = await self._connection.read_response()
        return levels

    async def _in_time(self, answer: Awaitable[T]) -> T:
        """The answer. Raises LimitServerError, also when it takes too long.

        When the time is up, the event loop gets a moment to read the socket once more: if this process was paused,
        the answer has arrived and nothing has read it yet.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as deadline:
                up = loop.call_later(self._timeout, lambda: deadline.reschedule(loop.time() + _GRACE_SECONDS))
                try:
                    return await answer
                finally:
                    up.cancel()
        except Exception as error:
            raise LimitServerError(problem_words(error)) from None

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # the connection may be broken
                await connection.disconnect(nowait=True)


def problem_words(error: Exception) -> str:
    from redis import exceptions

    if isinstance(error, UnicodeDecodeError | PermissionError | FileNotFoundError | IsADirectoryError):
        return "a file that the connection needs cannot be read"
    if isinstance(error.__context__ or error, ssl.SSLError):
        return "the TLS handshake failed: check its certificate, and that it uses TLS"
    if isinstance(error, exceptions.ReadOnlyError):
        return "it is a read-only replica: set RELAYDECK_LIMITS_URL to the primary server, or promote this one"
    if isinstance(error, exceptions.NoPermissionError):
        return "its user lacks the permission to run the script"
    if isinstance(error, exceptions.AuthenticationError):
        return "it refused the user name or password"
    if isinstance(error, TimeoutError | exceptions.TimeoutError):
        return "it did not respond in time"
    if isinstance(error, OSError | exceptions.ConnectionError):
        return "it cannot be reached"
    return f"it responded with an error ({type(error).__name__})"


_ONE = 1_000_000
_PROBE_SECONDS = 1.0
LIMITS_AWAY = "the limit server cannot be used: this machine applies the limit by itself until it can"

Waiting = list[tuple[int, "asyncio.Future[LimitDecision]"]]  # the slot in the machine's own table, the request
Batch = dict[Allowance | None, dict[str, Waiting]]  # by the names of buckets; None: the common allowance


class SharedLimiter:
    def __init__(
        self,
        client: LimitClient,
        local: RateLimiter,
        per_second: int,
        burst: int,
        log: Log,
        metrics: Metrics,
        probe_seconds: float = _PROBE_SECONDS,
    ) -> None:
        self._client = client
        self._local = local
        self._common = Allowance(per_second, burst)
        self._log = log
        self._metrics = metrics
        self._probe_seconds = probe_seconds
        self._alone = False  # the first requests wait until the connection is open or has failed
        self._waiting: Batch = {}
        self._requested = asyncio.Event()
        self._task = asyncio.create_task(self._serve_batches())

    async def take(self, credential: Credential, own: Allowance | None = None) -> LimitDecision:
        """Take one request from a credential's bucket, if it holds one."""
        if self._alone:
            return self._local.take(credential.seq, own)
        decision: asyncio.Future[LimitDecision] = asyncio.get_running_loop().create_future()
        buckets = self._waiting.setdefault(own, {})
        buckets.setdefault(bucket_of(credential.digest), []).append((credential.seq, decision))
        self._requested.set()
        return await decision

    async def _serve_batches(self) -> None:
        backoff = Backoff(10 * self._probe_seconds, self._probe_seconds)
        while True:
            try:
                await self._client.connect()
                self._go_together()
                await self._answer_batches()
            except LimitServerError as problem:
                self._go_alone(str(problem))
            except Exception as error:  # whatever it is, requests are still limited
                self._go_alone(type(error).__name__)
            await asyncio.sleep(backoff.pause())

    async def _answer_batches(self) -> None:
        while True:
            await self._requested.wait()
            self._requested.clear()
            batch, self._waiting = self._waiting, {}
            try:
                for own, buckets in batch.items():
                    allowance = own or self._common
                    asked = {bucket: len(waiting) for bucket, waiting in buckets.items()}
                    levels = await self._client.take(allowance.rate, allowance.burst, asked)
                    for level, waiting in zip(levels, buckets.values(), strict=True):
                        self._answer(level, waiting, allowance)
            except BaseException:
                self._answer_alone(batch)
                raise

    def _answer(self, level: int, waiting: Waiting, allowance: Allowance) -> None:
        decisions = decisions_for(level, len(waiting), allowance.rate, allowance.burst)
        for (_, decision), found in zip(waiting, decisions, strict=True):
            if not decision.done():  # its client may have disconnected
                decision.set_result(found)

    def _go_together(self) -> None:
        if self._alone:
            self._log.event("info", "the limit server can be used again", server=self._client.shown)
        self._alone = False
        self._metrics.set(LIMITS_ALONE, 0)

    def _go_alone(self, problem: str) -> None:
        if not self._alone:
            self._log.event("warning", LIMITS_AWAY, server=self._client.shown, problem=problem)
            self._metrics.count(LIMITS_FALLBACKS)
        self._alone = True
        self._metrics.set(LIMITS_ALONE, 1)
        batch, self._waiting = self._waiting, {}
        self._answer_alone(batch)

    def _answer_alone(self, batch: Batch) -> None:
        for own, buckets in batch.items():
            for slot, decision in chain.from_iterable(buckets.values()):
                if not decision.done():
                    decision.set_result(self._local.take(slot, own))

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        batch, self._waiting = self._waiting, {}
        self._alone = True
        self._answer_alone(batch)
        await self._client.close()


def decisions_for(level: int, requests: int, rate: int, burst: int) -> Iterator[LimitDecision]:
    """The decisions about several requests at once, for a bucket that held `level` millionths of a request."""
    for _ in range(requests):
        level, decision = after_request(level, _ONE, burst * _ONE, rate * _ONE)
        yield decision


def bucket_of(digest: bytes) -> str:
    """The name of a credential's bucket. It reveals neither the token nor its stored digest."""
    return BUCKET_PREFIX + hashlib.sha256(b"limit" + digest).hexdigest()[:32]
