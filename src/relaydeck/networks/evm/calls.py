"""One question on its way over the URLs of a pool: which URL is asked, for how long, and what a failure means."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from relaydeck.background import TaskSet
from relaydeck.networks.evm.errors import ErrorKind, NodeError, NodesUnreachable, UrlFailed, error_kind
from relaydeck.networks.evm.hedge import HedgeBudget, hedge_delay
from relaydeck.networks.evm.node import Node, State
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.evm.ranking import choose
from relaydeck.networks.evm.upkeep import Upkeep

T = TypeVar("T")
_MAX_TRIES = 2  # of one question on one URL; the second one only after a successful probe


class Answer(msgspec.Struct, Generic[T], frozen=True):
    value: T
    node: str  # scheme and host


@dataclass(slots=True)
class Call(Generic[T]):
    """One question on its way over the URLs."""

    send: Callable[[Node], Awaitable[T]]
    deadline: float  # on the event loop's clock
    key: object  # the question: a URL that fails the same one again is not blamed twice
    label: str  # of its times; empty: not measured and not hedged
    tries: dict[Node, int] = field(default_factory=dict)
    failed: dict[Node, UrlFailed] = field(default_factory=dict)
    passing: NodeError | None = None
    second: "asyncio.Task[None] | None" = None  # the hedge
    won: Answer[T] | None = None  # the answer of the hedge


class Moved(Exception):
    """The URL was set aside while the call was under way."""


class Slow(Exception):
    """The URL did not answer this call in time, but it did answer others."""


class Overtaken(Exception):
    """The second request was answered first."""


class Calls:
    def __init__(self, nodes: Sequence[Node], options: PoolOptions, upkeep: Upkeep) -> None:
        self.hedges = HedgeBudget()
        self._nodes = nodes
        self._options = options
        self._upkeep = upkeep
        self._tasks = TaskSet()

    async def run(self, call: Call[T]) -> Answer[T]:
        try:
            while node := await self._next(call):
                answer = await self._try(node, call)
                if answer is not None:
                    if call.failed:
                        self._upkeep.blame(call.failed, call.key)
                    return answer
        finally:
            if call.second is not None:
                call.second.cancel()
        for node, problem in call.failed.items():
            node.note_failure(problem)
        raise call.passing or NodesUnreachable(self.problems())

    async def _try(self, node: Node, call: Call[T]) -> Answer[T] | None:
        """None: the next URL is to be asked."""
        try:
            return Answer(await self.attempt(node, call), node.shown)
        except Overtaken:
            return call.won
        except Moved:
            return call.won
        except Slow:
            pass
        except UrlFailed as failure:
            self._upkeep.doubt(node, failure)
            call.failed[node] = failure
        except NodeError as error:
            self._note_error(node, error, call)
        call.tries[node] = call.tries.get(node, 0) + 1
        if call.second is not None:
            await asyncio.wait((call.second,))
        return call.won

    def refusal(self, node: Node, error: NodeError, call: Call[T]) -> NodeError | None:
        """The error as the node's answer; None: the URL is over its limits, or does not serve us."""
        try:
            self._note_error(node, error, call)
        except NodeError as answer:
            return answer
        return call.passing

    def _note_error(self, node: Node, error: NodeError, call: Call[T]) -> None:
        """An error after which another node may answer. Raises an error that is the node's answer."""
        match error_kind(error):
            case ErrorKind.BUSY:
                self._upkeep.doubt(node, UrlFailed("is over its limits", busy=True, wait=error.wait))
            case ErrorKind.DENIED:
                wait = self._options.pause_max
                self._upkeep.doubt(node, UrlFailed("does not accept our key", busy=True, wait=wait))
            case ErrorKind.PASSING:
                call.tries[node] = _MAX_TRIES  # it would answer the same again
                call.passing = node.scrubbed(error)
            case _:
                raise node.scrubbed(error) from None

    async def attempt(self, node: Node, call: Call[T], *, is_second: bool = False) -> T:
        loop, epoch, started, granted = asyncio.get_running_loop(), node.epoch, 0.0, 0.0
        timer: asyncio.TimerHandle | None = None
        try:
            async with asyncio.timeout_at(call.deadline) as scope:
                node.scopes.add(scope)
                async with node.slots:
                    if node.epoch != epoch:
                        raise Moved
                    started = loop.time()
                    remaining = call.deadline - started
                    granted = self._share(node, remaining, call.tries)
                    if granted < remaining:
                        scope.reschedule(started + granted)
                    timer = None if is_second else self._plan_second(node, call, scope)
                    result = await call.send(node)
        except TimeoutError:
            if call.won is not None and not is_second:
                node.pace.add(call.label, loop.time() - started)  # at least so long
                raise Overtaken from None
            raise self._too_late(node, epoch, started, granted) from None
        except NodeError:
            node.answered_at = loop.time()
            raise
        finally:
            node.scopes.discard(scope)
            if timer is not None:
                timer.cancel()
        now = loop.time()
        node.note_answer(now)
        if call.label:
            node.pace.add(call.label, now - started)
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

    # -- a second request -------------------------------------------------------------------------

    def _plan_second(self, node: Node, call: Call[T], scope: asyncio.Timeout) -> asyncio.TimerHandle | None:
        if not call.label or len(self._nodes) == 1 or call.tries or call.second is not None:
            return None
        delay = hedge_delay(node.pace.p95(call.label))
        if delay is None:
            return None
        return asyncio.get_running_loop().call_later(delay, self._send_second, node, call, scope)

    def _send_second(self, node: Node, call: Call[T], scope: asyncio.Timeout) -> None:
        others = [other for other in self._upkeep.fresh if other is not node]
        if others and self.hedges.take():
            call.second = self._tasks.start(self._answer_first(choose(others, call.label), call, scope))

    async def _answer_first(self, node: Node, call: Call[T], scope: asyncio.Timeout) -> None:
        try:
            value = await self.attempt(node, call, is_second=True)
        except UrlFailed as failure:
            self._upkeep.doubt(node, failure)
            return
        except (NodeError, NodesUnreachable, Moved, Slow):
            return  # the first request decides
        call.won = Answer(value, node.shown)
        with suppress(RuntimeError):  # the first request ended in this turn of the loop
            scope.reschedule(asyncio.get_running_loop().time())

    # -- which URL is next ------------------------------------------------------------------------

    async def _next(self, call: Call[T]) -> Node | None:
        only = self._nodes[0] if len(self._nodes) == 1 else None
        if only is not None and only.state is State.UP and not call.tries:
            return only
        loop = asyncio.get_running_loop()
        while True:
            candidates, probes = self._candidates(call.tries)
            if candidates:
                return choose(candidates, call.label)
            if not probes or loop.time() >= call.deadline:
                return None
            await asyncio.wait(probes, timeout=call.deadline - loop.time(), return_when=asyncio.FIRST_COMPLETED)

    def _candidates(self, tries: dict[Node, int]) -> tuple[list[Node], list[asyncio.Task[None]]]:
        """The URLs to choose from now, or else the probes to wait for."""
        probes: list[asyncio.Task[None]] = []
        for tier in self._tiers(tries):
            self._upkeep.probe_where_due(tier)
            # A URL that failed this call is tried again after its probe.
            usable = [node for node in tier if node.state is State.UP and not (node in tries and node.probe)]
            probes += [node.probe for node in tier if node.probe is not None]
            if usable or any(node.state is State.NEW for node in tier):
                return usable, probes
        return [], probes

    def _tiers(self, tries: dict[Node, int]) -> Iterator[list[Node]]:
        """In the order of use: spare URLs, URLs that are behind, URLs that failed this call."""
        yield [node for node in self._nodes if not node.spare and not node.stale and node not in tries]
        yield [node for node in self._nodes if node.spare and not node.stale and node not in tries]
        yield [node for node in self._nodes if node.stale and node not in tries]
        yield [node for node in self._nodes if 0 < tries.get(node, 0) < _MAX_TRIES]

    def problems(self) -> str:
        if not self._nodes:
            return "no RPC URL is configured"
        return "; ".join(f"{node.shown} {node.reason or 'did not answer in time'}" for node in self._nodes[:8])

    async def close(self) -> None:
        await self._tasks.cancel()
