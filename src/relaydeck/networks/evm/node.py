"""One URL of a pool and its state. Only the pool changes it.

NEW ──probe──> UP ──failure──> OUT ──probe, when its pause is over──> UP
 └───────────────── probe failed, or another chain ────────> OUT
"""

import asyncio
import time
from enum import Enum
from math import inf
from typing import NamedTuple

from relaydeck.networks.evm.errors import UrlFailed
from relaydeck.networks.evm.header import Header
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.model import RpcUrl
from relaydeck.process.background import TimeLimit

_RECENT = 0.2  # the weight of the newest time in the average
_ERROR_WEIGHT = 0.1
_NEGLIGIBLE = 0.01
SMALL_BATCH = 16  # questions that every node is expected to take together
_LARGEST_BATCH = 200  # that is tried; a node that refuses it gets smaller ones


class State(Enum):
    NEW = "new"
    UP = "up"
    OUT = "out"


class Fault(NamedTuple):
    reason: str  # in our own words
    at: float  # by the wall clock


class Node:
    def __init__(self, url: RpcUrl, options: PoolOptions) -> None:
        self.url = url
        self.shown = url.shown
        self.weight = max(url.weight, 0)
        self.state = State.NEW
        self.batches = True
        self.batch_size = _LARGEST_BATCH  # of the next batch
        self.credit = 0  # of the smooth weighted choice
        self.failures = 0  # since the last real answer
        self.failed_question: object = None  # the last one that this URL failed and another answered
        self.doubted_at = -inf  # when a failed question last started a probe, on the pool's clock
        self.resume_at = 0.0  # when an OUT URL may be probed again
        self.answered_at = 0.0  # by any call, on the event loop's clock
        self.reason = "not asked yet"  # why it has no answer, in our own words; empty: there is no problem
        self.last_fault: Fault | None = None  # stays when the node is back
        self.errors = 0  # ever
        self.latency = Latency()
        self.outvoted = 0  # times, ever, that it answered differently from most nodes
        self.header: Header | None = None  # its newest block, when it was last read
        self.has_blocks = True  # it returns blocks; one that does not is asked for their number
        self.lag: int | None = None  # blocks behind the newest that most nodes have; unknown until it is compared
        self.stale = ""  # why it is not asked while a fresher node answers
        self.answers = True  # as far as known, a node of this chain is there; it may refuse to serve us
        self.probed_at = -inf  # on the pool's clock
        self.probe: asyncio.Task[None] | None = None
        self.slots = asyncio.Semaphore(options.connections_per_url)
        self.limits: set[TimeLimit] = set()  # of the calls under way
        self.epoch = 0  # grows each time it is set aside

    @property
    def spare(self) -> bool:
        return self.weight == 0

    @property
    def in_prospect(self) -> bool:
        """Usable now, or perhaps soon: a URL being probed may be back before a silent one answers."""
        return self.state is not State.OUT or self.probe is not None

    def needs_probe(self, now: float) -> bool:
        if self.probe is not None or self.state is State.UP:
            return False
        return self.state is State.NEW or now >= self.resume_at

    def note_fault(self, reason: str) -> None:
        self.errors += 1
        self.last_fault = Fault(reason, time.time())

    def note_dispute(self, answered: str) -> None:
        """It and others contradict each other, and nobody knows who is right."""
        self.last_fault = Fault(answered, time.time())

    def note_answer(self, loop_time: float) -> None:
        self.answered_at = loop_time
        self.failures = 0
        self.failed_question = None
        if self.state is State.UP:
            self.answers, self.reason = True, ""

    def note_failure(self, failure: UrlFailed) -> None:
        """No URL answered a question. The state shows why this one did not, until it answers another."""
        if self.state is State.UP:
            self.answers, self.reason = failure.busy, failure.reason

    def shrink_batches(self, failed: int) -> None:
        """A batch of so many questions failed. Several that were under way together shrink the size once."""
        self.batch_size = min(self.batch_size, max(SMALL_BATCH, failed // 2))

    def grow_batches(self, answered: int) -> None:
        if answered >= self.batch_size:
            self.batch_size = min(_LARGEST_BATCH, self.batch_size + SMALL_BATCH)

    def release_calls(self) -> None:
        """End every call under way on this URL, as if it had timed out: each continues with another URL."""
        now = asyncio.get_running_loop().time()
        for limit in self.limits:
            limit.move(now)


class Latency:
    """The average time of each method, and how often the node failed or was outvoted lately."""

    def __init__(self) -> None:
        self.error_rate = 0.0
        self._methods: dict[str, float] = {}  # of the few methods that the service uses

    def add(self, method: str, seconds: float) -> None:
        """An answer arrived."""
        if self.error_rate:
            rate = self.error_rate * (1 - _ERROR_WEIGHT)
            self.error_rate = rate if rate > _NEGLIGIBLE else 0.0
        average = self._methods.get(method, seconds)
        self._methods[method] = average + _RECENT * (seconds - average)

    def add_error(self, weight: float = _ERROR_WEIGHT) -> None:
        self.error_rate += weight * (1 - self.error_rate)

    def average(self, *methods: str) -> float | None:
        """The average of the first of these methods that was asked."""
        return next((self._methods[each] for each in methods if each in self._methods), None)

    @property
    def slowest(self) -> float | None:
        """The average of the slowest method; None before the first answer."""
        return max(self._methods.values(), default=None)
