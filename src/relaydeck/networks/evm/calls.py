"""One question on its way over the URLs of a pool: which URL is asked, for how long, and what a failure means."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from relaydeck.networks.evm.errors import ErrorKind, NodeError, NodesUnreachable, UrlFailed, error_kind
from relaydeck.networks.evm.header import NEWEST_BLOCK
from relaydeck.networks.evm.node import Node, State
from relaydeck.networks.evm.node_health import NodeHealth
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.process.background import TaskSet, TimeLimit, TimeLimits

T = TypeVar("T")
_MAX_TRIES = 2  # of one question on one URL; the second one only after a successful probe
_SCALE = 1000  # shares are integers: the choice is exact
_SIMILAR = 0.025  # seconds; nodes of one data centre and a busy machine differ by as much
_PATIENCE = 0.05  # seconds for which a node that is not needed is waited for, at least


class Answer(msgspec.Struct, Generic[T], frozen=True):
    value: T
    node: str  # scheme and host; of several nodes that agree, separated by commas


class Said(NamedTuple):
    """What one node answered: a value, or a `NodeError` that is its answer."""

    node: Node
    value: Any


class Call(msgspec.Struct, Generic[T], eq=False):
    """One question on its way over the URLs."""

    send: Callable[[Node], Awaitable[T]]
    deadline: float  # on the event loop's clock
    key: object  # the question: a URL that fails the same one again is not blamed twice
    label: str  # of its times; empty: not measured
    for_all: bool = False  # asked of every node, so that it says nothing about whose turn is next
    first: Collection[Node] = ()  # asked before others
    tries: dict[Node, int] = {}
    taken: set[Node] = set()  # being asked, or heard
    failed: dict[Node, UrlFailed] = {}
    passing: NodeError | None = None
    ended: NodesUnreachable | None = None  # for want of time


class Moved(Exception):
    """The URL was set aside while the call was under way."""


class Slow(Exception):
    """The URL did not answer this call in time, but it did answer others."""


class Calls:
    def __init__(self, nodes: Sequence[Node], options: PoolOptions, health: NodeHealth) -> None:
        self._nodes = nodes
        self._options = options
        self._health = health
        self._limits = TimeLimits()
        self._tasks = TaskSet()

    async def hear(self, call: Call[T], count: int) -> list[Said]:
        """The answers of up to so many nodes, asked at the same time; at least one. Raises when no node answers."""
        if count == 1 and (only := await self._one(call)) is not None:
            return [only]
        said = await self.hear_more(call, count) if count > 1 else []
        if not said:
            self._give_up(call)
        return said

    async def hear_more(self, call: Call[T], count: int) -> list[Said]:
        """The same for nodes that this call has not heard yet. There may be none."""
        if count == 1:
            found = [await self._one(call)]
        else:
            found = await asyncio.gather(*(self._one(call) for _ in range(count)))
        return [each for each in found if each is not None]

    async def hear_most(self, call: Call[T], count: int, needed: int) -> list[Said]:
        """The answers of so many nodes, until most of them are equal: the others cannot change what is decided.

        When one answer is enough, the others get as much time again as the first one took. What arrives late is noted.
        """
        if count == 1:
            return await self.hear(call, 1)
        loop = asyncio.get_running_loop()
        started, until = loop.time(), None
        waiting = {self._tasks.start(self._one(call)) for _ in range(count)}
        said: list[Said] = []
        while waiting and not is_settled(said, count):
            left = None if until is None else max(0.0, until - loop.time())
            done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                break
            said += [found for each in done if (found := each.result()) is not None]
            if said and needed == 1 and until is None:
                until = loop.time() + max(_PATIENCE, loop.time() - started)
        if not said:
            self._give_up(call)
        return said

    def _give_up(self, call: Call[T]) -> None:
        for node, problem in call.failed.items():
            node.note_failure(problem)
        raise call.passing or call.ended or NodesUnreachable(self.problems())

    async def _one(self, call: Call[T]) -> Said | None:
        """The answer of one more node; None: there is no other."""
        while node := self._only_one(call) or await self._next(call):
            call.taken.add(node)
            said = await self._try(node, call)
            if said is not None:
                if call.failed:
                    self._health.blame(call.failed, call.key)
                return said
            call.taken.discard(node)
            if call.ended is not None:
                break
        return None

    async def answer_of(self, node: Node, call: Call[T]) -> T | None:
        """The answer of this node and no other; None: it has none."""
        said = await self._try(node, call)
        return None if said is None or isinstance(said.value, NodeError) else said.value

    async def _try(self, node: Node, call: Call[T]) -> Said | None:
        """None: the next URL is to be asked."""
        try:
            value: T = await self.attempt(node, call)
            return Said(node, value)
        except Moved:
            return None
        except Slow:
            pass
        except NodesUnreachable as failure:
            call.ended = failure
        except UrlFailed as failure:
            self._health.doubt(node, failure)
            call.failed[node] = failure
        except NodeError as error:
            if error_kind(error) in (ErrorKind.REVERTED, ErrorKind.REFUSED):
                return Said(node, error)
            self._note_error(node, error, call)
        call.tries[node] = call.tries.get(node, 0) + 1
        return None

    def _note_error(self, node: Node, error: NodeError, call: Call[T]) -> None:
        """An error after which another node may answer."""
        match error_kind(error):
            case ErrorKind.BUSY:
                self._health.doubt(node, UrlFailed("is over its limits", busy=True, wait=error.wait))
            case ErrorKind.DENIED:
                wait = self._options.pause_max
                self._health.doubt(node, UrlFailed("does not accept our key", busy=True, wait=wait))
            case _:
                call.tries[node] = _MAX_TRIES  # it would answer the same again
                call.passing = error

    async def attempt(self, node: Node, call: Call[T]) -> T:
        loop, epoch, started, granted = asyncio.get_running_loop(), node.epoch, 0.0, 0.0
        try:
            with TimeLimit(self._limits, call.deadline) as limit:
                node.limits.add(limit)
                await node.slots.acquire()
                try:
                    if node.epoch != epoch:
                        raise Moved
                    started = loop.time()
                    remaining = call.deadline - started
                    if remaining <= 0:
                        raise TimeoutError
                    granted = self._share(node, remaining, call.tries)
                    if granted < remaining:
                        limit.move(started + granted)
                    result = await call.send(node)
                finally:
                    node.slots.release()
        except TimeoutError:
            raise self._too_late(node, epoch, started, granted) from None
        except NodeError:
            node.answered_at = loop.time()
            raise
        finally:
            node.limits.discard(limit)
        now = loop.time()
        node.note_answer(now)
        if call.label:
            node.latency.add(call.label, now - started)
        return result

    def _share(self, node: Node, remaining: float, tries: dict[Node, int]) -> float:
        """The time this try gets of what is left, so that every URL that may answer gets its turn."""
        if len(self._nodes) == 1:
            return remaining
        left_to_try = [other for other in self._nodes if tries.get(other, 0) < _MAX_TRIES]
        if node in tries:  # the last try: no time is reserved for URLs that are out
            return remaining / max(1, sum(1 for other in left_to_try if other.state is State.UP))
        left = sum(1 for other in left_to_try if other.in_prospect)
        return remaining if left <= 1 else min(self._options.try_timeout, remaining / left)

    def _too_late(self, node: Node, epoch: int, started: float, granted: float) -> Exception:
        """The failure that a timeout means."""
        if node.epoch != epoch:
            return Moved()
        if not started:
            return NodesUnreachable(f"{node.shown} had no connection free in time")
        if node.answered_at > started:  # another call, meanwhile: the URL is slow or busy, not unreachable
            return Slow()
        if granted < self._options.try_timeout / 4:
            return NodesUnreachable("no node answered in time: " + self.problems())
        return UrlFailed("timed out", silent=True)

    # -- which URL is next ------------------------------------------------------------------------

    def _only_one(self, call: Call[T]) -> Node | None:
        """The URL of a pool that has no other, if it is up and this call has not asked it."""
        node = self._nodes[0] if len(self._nodes) == 1 else None
        return node if node and node.state is State.UP and not call.tries and not call.taken else None

    async def _next(self, call: Call[T]) -> Node | None:
        loop = asyncio.get_running_loop()
        while True:
            candidates, probes = self._candidates(call)
            if candidates:
                preferred = candidates if call.for_all else [node for node in candidates if node in call.first]
                return preferred[0] if preferred else choose(candidates, call.label)
            if not probes or loop.time() >= call.deadline:
                return None
            await asyncio.wait(probes, timeout=call.deadline - loop.time(), return_when=asyncio.FIRST_COMPLETED)

    def _candidates(self, call: Call[T]) -> tuple[list[Node], list[asyncio.Task[None]]]:
        """The URLs to choose from now, or else the probes to wait for."""
        probes: list[asyncio.Task[None]] = []
        for tier in self._tiers(call):
            self._health.probe_where_due(tier)
            # A URL that failed this call is tried again after its probe.
            usable = [node for node in tier if node.state is State.UP and not (node in call.tries and node.probe)]
            probes += [node.probe for node in tier if node.probe is not None]
            if usable or any(node.state is State.NEW for node in tier):
                return usable, probes
        return [], probes

    def _tiers(self, call: Call[T]) -> Iterator[list[Node]]:
        """In the order of use: spare URLs, URLs that are behind, URLs that failed this call."""
        left = [node for node in self._nodes if node not in call.taken]
        fresh = [node for node in left if not node.stale and node not in call.tries]
        yield [node for node in fresh if not node.spare and not node.lag]
        yield [node for node in fresh if not node.spare and node.lag]
        yield [node for node in fresh if node.spare]
        yield [node for node in left if node.stale and node not in call.tries]
        yield [node for node in left if 0 < call.tries.get(node, 0) < _MAX_TRIES]

    def problems(self, heard: Iterable[Node] = ()) -> str:
        """Why no node answered, or none of the others that were heard."""
        if not self._nodes:
            return "no RPC URL is configured"
        silent = [node for node in self._nodes if node not in heard]
        return "; ".join(f"{node.shown} {node.reason or 'did not answer in time'}" for node in silent[:8])

    async def close(self) -> None:
        await self._tasks.cancel()


def is_settled(said: Sequence[Said], count: int) -> bool:
    return any(2 * sum(one.value == other.value for other in said) > count for one in said)


def choose(nodes: Sequence[Node], method: str = "") -> Node:
    """Smooth weighted round robin: converges to the shares without bursts. Spare URLs take turns."""
    if len(nodes) == 1:
        return nodes[0]
    total = 0
    for node, share in zip(nodes, shares(nodes, method), strict=True):
        node.credit += share
        total += share
    chosen = max(nodes, key=lambda node: node.credit)
    chosen.credit -= total
    return chosen


def shares(nodes: Sequence[Node], method: str) -> list[int]:
    """The weights, each reduced by the square of how much slower than the fastest, and how unreliable, a node is.

    A node that is at most twice as slow as the fastest keeps its whole weight.
    """
    latencies = [node.latency.average(method, NEWEST_BLOCK.method) or 0.0 for node in nodes]
    fastest = min(latencies)
    similar = max(2 * fastest, fastest + _SIMILAR)
    return [_share(node, similar, latency) for node, latency in zip(nodes, latencies, strict=True)]


def _share(node: Node, similar: float, latency: float) -> int:
    share = float(_SCALE * (node.weight or 1))
    if latency > similar:
        share *= (similar / latency) ** 2
    if node.latency.error_rate:
        share *= (1 - node.latency.error_rate) ** 2
    return max(1, round(share))
