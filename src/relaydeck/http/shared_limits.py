"""The rate limit across replicas: the same buckets, held by one limit server.

Requests that arrive while a command is in progress share the next one, so a busy worker needs few round trips and one
connection. When the server does not respond in time, the worker uses the buckets of its own machine until the server
responds again: no request waits for a server that is known to be away.
"""

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import suppress

from relaydeck.http.credential import Credential
from relaydeck.http.limit_client import LimitClient, LimitServerError
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.metrics import LIMITS_ALONE, LIMITS_FALLBACKS
from relaydeck.http.ratelimit import LimitDecision, RateLimiter
from relaydeck.log import Log

_ONE = 1_000_000
_PROBE_SECONDS = 1.0
LIMITS_AWAY = "the limit server does not respond: this machine applies the limit by itself until it does"

Waiting = list[tuple[int, "asyncio.Future[LimitDecision]"]]  # the slot in the machine's own table, the request


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
        self._rate = per_second
        self._burst = burst
        self._log = log
        self._metrics = metrics
        self._probe_seconds = probe_seconds
        self._alone = False  # the first requests wait until the connection is open or has failed
        self._waiting: dict[str, Waiting] = {}
        self._requested = asyncio.Event()
        self._task = asyncio.create_task(self._serve_batches())

    async def take(self, credential: Credential) -> LimitDecision:
        """Take one request from a credential's bucket, if it holds one."""
        if self._alone:
            return self._local.take(credential.seq)
        decision: asyncio.Future[LimitDecision] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(bucket_of(credential.digest), []).append((credential.seq, decision))
        self._requested.set()
        return await decision

    async def _serve_batches(self) -> None:
        while True:
            try:
                await self._client.connect()
                self._go_together()
                await self._answer_batches()
            except LimitServerError as problem:
                self._go_alone(str(problem))
            except Exception as error:  # whatever it is, requests are still limited
                self._go_alone(type(error).__name__)
            await asyncio.sleep(self._probe_seconds)

    async def _answer_batches(self) -> None:
        while True:
            await self._requested.wait()
            self._requested.clear()
            batch, self._waiting = self._waiting, {}
            try:
                asked = {bucket: len(waiting) for bucket, waiting in batch.items()}
                levels = await self._client.take(self._rate, self._burst, asked)
            except BaseException:
                self._answer_alone(batch)
                raise
            for level, waiting in zip(levels, batch.values(), strict=True):
                self._answer(level, waiting)

    def _answer(self, level: int, waiting: Waiting) -> None:
        decisions = decisions_for(level, len(waiting), self._rate, self._burst)
        for (_, decision), found in zip(waiting, decisions, strict=True):
            if not decision.done():  # its client may have disconnected
                decision.set_result(found)

    def _go_together(self) -> None:
        if self._alone:
            self._log.event("info", "the limit server responds again", server=self._client.shown)
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

    def _answer_alone(self, batch: dict[str, Waiting]) -> None:
        for waiting in batch.values():
            for slot, decision in waiting:
                if not decision.done():
                    decision.set_result(self._local.take(slot))

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
    full, a_second = burst * _ONE, rate * _ONE
    for _ in range(requests):
        if admitted := level >= _ONE:
            level -= _ONE
        to_next = 0 if level >= _ONE else -((level - _ONE) // a_second)
        yield admitted, level // _ONE, -((level - full) // a_second), to_next


def bucket_of(digest: bytes) -> str:
    """The name of a credential's bucket. It reveals neither the token nor its stored digest.

    The part in braces puts all buckets into one slot of a cluster.
    """
    return "{relaydeck}:limit:" + hashlib.sha256(b"limit" + digest).hexdigest()[:32]
