"""One URL of a pool and its state. Only the pool changes it.

NEW ──probe──> UP ──failure──> OUT ──probe, when its pause is over──> UP
 └───────────────── probe failed, or another chain ────────> OUT
"""

import asyncio
import re
import time
from enum import Enum
from math import inf
from typing import NamedTuple

from relaydeck.networks.evm.errors import NodeError, UrlFailed
from relaydeck.networks.evm.landmark import Landmark
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.evm.pace import Pace
from relaydeck.networks.evm.url_secrets import secrets_pattern
from relaydeck.networks.model import RpcUrl

_URL = re.compile(r"\b\w+://\S+")
_LONGEST_SCRUBBED, _LONGEST_SHOWN = 64_000, 2_000  # characters of a node's message
_LONGEST_SPELLING = 6  # times the length of a secret: as a JSON escape of each character


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
        values = [value for _, value in url.revealed_headers]
        self._secrets = secrets_pattern(url.url, values)
        self._longest_secret = _LONGEST_SPELLING * max(map(len, [url.url, *values]))
        self.state = State.NEW
        self.batches = True
        self.batch_size = options.largest_batch  # of the next batch
        self._least_batch, self._largest_batch = options.max_batch, options.largest_batch
        self.credit = 0  # of the smooth weighted choice
        self.failures = 0  # since the last real answer
        self.failed_question: object = None  # the last one that this URL failed and another answered
        self.doubted_at = -inf  # when a failed question last started a probe, on the pool's clock
        self.resume_at = 0.0  # when an OUT URL may be probed again
        self.answered_at = 0.0  # by any call, on the event loop's clock
        self.reason = "not asked yet"
        self.last_fault: Fault | None = None  # stays when the node is back
        self.errors = 0  # ever
        self.pace = Pace()
        self.landmark: Landmark | None = None  # its newest block, when it was last read
        self.has_blocks = True  # it returns blocks; one that does not is asked for their number
        self.lag: int | None = None  # blocks behind the best of the pool; unknown until it is compared
        self.moved = False  # its newest block is newer than the one before
        self.still_rounds = 0  # comparisons since it moved, with others ahead
        self.stale = ""  # why it is not asked while a fresher node answers
        self.answers = True  # as far as known, a node of this chain is there; it may refuse to serve us
        self.probed_at = -inf  # on the pool's clock
        self.probe: asyncio.Task[None] | None = None
        self.slots = asyncio.Semaphore(options.connections_per_url)
        self.scopes: set[asyncio.Timeout] = set()  # of the calls under way
        self.epoch = 0  # grows each time it is set aside

    @property
    def spare(self) -> bool:
        return self.weight == 0

    @property
    def in_prospect(self) -> bool:
        """Usable now, or perhaps soon: a URL being probed may be back before a silent one answers."""
        return self.state is not State.OUT or self.probe is not None

    @property
    def head(self) -> int:
        return self.landmark.number if self.landmark else 0

    def note_block(self, landmark: Landmark) -> None:
        self.moved = landmark.number > self.head
        self.landmark = landmark

    def needs_probe(self, now: float) -> bool:
        if self.probe is not None or self.state is State.UP:
            return False
        return self.state is State.NEW or now >= self.resume_at

    def note_fault(self, reason: str) -> None:
        self.errors += 1
        self.last_fault = Fault(reason, time.time())

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

    def scrubbed(self, error: NodeError) -> NodeError:
        """The same error without the secret parts of this URL, should the node quote them."""
        message = _URL.sub("(a URL)", self._secrets.sub("…", error.message[:_LONGEST_SCRUBBED]))
        if len(error.message) > _LONGEST_SCRUBBED:  # a secret may have been cut in two there
            message = message[: -self._longest_secret]
        return NodeError(error.code, message[:_LONGEST_SHOWN], error.data)

    def shrink_batches(self, failed: int) -> None:
        """A batch of so many questions failed. Several that were under way together shrink the size once."""
        self.batch_size = min(self.batch_size, max(self._least_batch, failed // 2))

    def grow_batches(self, answered: int) -> None:
        if answered >= self.batch_size:
            self.batch_size = min(self._largest_batch, self.batch_size + self._least_batch)

    def release_calls(self) -> None:
        """End every call under way on this URL, as if it had timed out: each continues with another URL."""
        now = asyncio.get_running_loop().time()
        for scope in self.scopes:
            if not scope.expired():
                scope.reschedule(now)
