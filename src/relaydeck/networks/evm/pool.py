"""A weighted pool over the URLs of one chain: a question goes on to the next URL when one fails.

Invariants: only reads are asked here, so a question may be asked again elsewhere; a URL is asked only after
a probe has seen the right chain id on it; one probe at a time per URL; a call never waits for a probe of one
URL while another one is usable; a timeout is blamed on a URL only when it had a fair time to answer and
answered nobody else in it.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from relaydeck.networks.evm.client import BatchRefused, Client
from relaydeck.networks.evm.error_kind import ErrorKind, error_kind
from relaydeck.networks.evm.errors import NodeError, NodesUnreachable, UrlFailed
from relaydeck.networks.evm.node import Node, State, choose
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.evm.probing import Evidence, examine
from relaydeck.networks.evm.question import Question
from relaydeck.networks.model import RpcUrl

T = TypeVar("T")
_MOST_TRIES = 2  # of one question on one URL; the second only after a probe has brought the URL back


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    value: T
    node: str  # scheme and host


class Seen(NamedTuple):
    """What was last seen of a URL. `problem` holds our own words, empty when all is well."""

    node: str  # scheme and host
    answers: bool
    problem: str


class _Moved(Exception):
    """The URL was set aside while the call was under way."""


class _Slow(Exception):
    """The URL had no answer for this call in time, though it had for others."""


class NodePool:
    def __init__(
        self,
        urls: Iterable[RpcUrl],
        chain_id: int,
        client: Client,
        options: PoolOptions,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        jitter: random.Random | None = None,
    ) -> None:
        self.chain_id = chain_id
        self.head = 0  # the newest block number any answer has named
        self._client = client
        self._options = options
        self._monotonic = monotonic
        self._jitter = jitter or random.Random()  # noqa: S311 - spreads probes, hides nothing
        self._nodes = [Node(url, options) for url in urls]
        self._tasks: set[asyncio.Task[None]] = set()

    # -- asking -----------------------------------------------------------------------------------

    async def call(self, method: str, params: Sequence[Any], deadline: float | None = None) -> Any:
        """The raw result of a read, from whichever URL answers first in turn."""
        return (await self.ask(Question(method, params, _as_it_is), deadline)).value

    async def ask(self, question: Question[T], deadline: float | None = None) -> Answer[T]:
        """`deadline` is on the event loop's clock. Raises `NodeError` or `NodesUnreachable`."""
        return await self._run(lambda node: self._client.ask(node.url, question), deadline)

    async def ask_all(self, questions: Sequence[Question[Any]], deadline: float | None = None) -> Answer[list[Any]]:
        """Independent questions to one URL, together. An answer may be a `NodeError`."""
        return await self._run(lambda node: self._ask_together(node, questions), deadline)

    async def _ask_together(self, node: Node, questions: Sequence[Question[Any]]) -> list[Any]:
        if node.batches and len(questions) > 1:
            try:
                answers = await self._client.ask_batch(node.url, questions)
                return [node.scrubbed(each) if isinstance(each, NodeError) else each for each in answers]
            except BatchRefused:
                node.batches = False
        return list(await asyncio.gather(*(self._ask_quietly(node, question) for question in questions)))

    async def _ask_quietly(self, node: Node, question: Question[T]) -> T | NodeError:
        try:
            return await self._client.ask(node.url, question)
        except NodeError as error:
            return node.scrubbed(error)

    def seen_block(self, number: int) -> None:
        self.head = max(self.head, number)

    # -- one question, over several URLs ----------------------------------------------------------

    async def _run(self, send: Callable[[Node], Awaitable[T]], deadline: float | None) -> Answer[T]:
        if deadline is None:
            deadline = asyncio.get_running_loop().time() + self._options.deadline
        tries: Counter[Node] = Counter()
        passing: NodeError | None = None
        while node := await self._next(tries, deadline):
            try:
                return Answer(await self._attempt(node, send, tries, deadline), node.shown)
            except _Moved:
                continue
            except _Slow:
                pass
            except UrlFailed as failure:
                self._set_aside(node, failure)
            except NodeError as error:
                meaning = error_kind(error)
                if meaning is ErrorKind.BUSY:
                    self._set_aside(node, UrlFailed("is over its limits", busy=True))
                elif meaning is ErrorKind.PASSING:
                    passing = node.scrubbed(error)
                    tries[node] = _MOST_TRIES  # it would say the same again
                else:
                    raise node.scrubbed(error) from None
            tries[node] += 1
        if passing is not None:
            raise passing
        raise NodesUnreachable(self._what_happened())

    async def _attempt(
        self, node: Node, send: Callable[[Node], Awaitable[T]], tries: Counter[Node], deadline: float
    ) -> T:
        loop, epoch, started, granted = asyncio.get_running_loop(), node.epoch, 0.0, 0.0
        try:
            async with asyncio.timeout_at(deadline) as scope:
                node.scopes.add(scope)
                async with node.slots:
                    if node.epoch != epoch:
                        raise _Moved
                    started = loop.time()
                    granted = self._share(node, deadline - started, tries)
                    scope.reschedule(started + granted)
                    result = await send(node)
        except TimeoutError:
            raise self._too_late(node, epoch, started, granted) from None
        except NodeError:
            node.answered_at = loop.time()
            raise
        finally:
            node.scopes.discard(scope)
        node.answered_at = loop.time()
        node.failures = 0
        return result

    def _share(self, node: Node, remaining: float, tries: Counter[Node]) -> float:
        """This try's part of the time left, so that every URL still in prospect can have its turn."""
        open_to_us = [other for other in self._nodes if tries[other] < _MOST_TRIES]
        if tries[node]:  # the last chance of the call: no time is kept for what is not there
            return remaining / max(1, sum(1 for other in open_to_us if other.state is State.UP))
        left = sum(1 for other in open_to_us if other.in_prospect)
        return remaining if left <= 1 else min(self._options.try_timeout, remaining / left)

    def _too_late(self, node: Node, epoch: int, started: float, granted: float) -> Exception:
        """Whose fault it was that a try ran out of time."""
        if node.epoch != epoch:
            return _Moved()
        if not started:
            return NodesUnreachable(f"{node.shown} had no connection free in time")
        if node.answered_at > started:  # others, meanwhile: it is slow or busy, not gone
            return _Slow()
        if granted < self._options.try_timeout / 4:
            return NodesUnreachable("no node answered in time: " + self._what_happened())
        return UrlFailed("timed out")

    # -- which URL is next ------------------------------------------------------------------------

    async def _next(self, tries: Counter[Node], deadline: float) -> Node | None:
        loop = asyncio.get_running_loop()
        while True:
            candidates, probes = self._candidates(tries)
            if candidates:
                return choose(candidates)
            if not probes or loop.time() >= deadline:
                return None
            await asyncio.wait(probes, timeout=deadline - loop.time(), return_when=asyncio.FIRST_COMPLETED)

    def _candidates(self, tries: Counter[Node]) -> tuple[list[Node], list[asyncio.Task[None]]]:
        """The URLs to choose from now, or else the probes worth waiting for."""
        probes: list[asyncio.Task[None]] = []
        for tier in self._tiers(tries):
            usable = self._usable(tier)
            probes += [node.probe for node in tier if node.probe is not None]
            if usable or any(node.state is State.NEW for node in tier):
                return usable, probes
        return [], probes

    def _tiers(self, tries: Counter[Node]) -> Iterator[list[Node]]:
        """In the order they are used: spares when no other is left, one that failed us when all did."""
        yield [node for node in self._nodes if not node.spare and not tries[node]]
        yield [node for node in self._nodes if node.spare and not tries[node]]
        yield [node for node in self._nodes if 0 < tries[node] < _MOST_TRIES]

    def _usable(self, nodes: list[Node]) -> list[Node]:
        now = self._monotonic()
        for node in nodes:
            if node.due(now):
                self._start_probe(node)
        return [node for node in nodes if node.state is State.UP]

    # -- set aside and probed back ----------------------------------------------------------------

    def _set_aside(self, node: Node, failure: UrlFailed) -> None:
        if node.state is not State.UP:
            return
        node.state = State.OUT
        node.epoch += 1
        node.failures += 1
        node.reason = failure.reason
        node.answers = failure.busy
        # The first failure may have been the question's fault: ask at once whether the node is still there.
        first = node.failures == 1 and not failure.busy
        node.resume_at = self._monotonic() + (0.0 if first else self._pause(node, failure.wait))
        if first:
            self._start_probe(node)
        if any(other.state is not State.OUT for other in self._nodes):
            node.release_calls()

    def _pause(self, node: Node, wanted: float | None = None) -> float:
        grown = self._options.pause_base * (1 << min(node.failures - 1, 20))
        pause = min(self._options.pause_max, grown) * self._jitter.uniform(0.5, 1.0)
        return min(self._options.pause_max, max(pause, wanted or 0.0))

    def _start_probe(self, node: Node) -> None:
        node.probe = task = asyncio.ensure_future(self._probe(node))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _probe(self, node: Node) -> None:
        try:
            evidence = await examine(self._client, node, self.chain_id, self._options.try_timeout)
        finally:
            node.probe = None
        node.reason = evidence.error
        node.answers = evidence.answers
        node.probed_at = self._monotonic()
        if evidence.ok:
            node.state = State.UP
            self.seen_block(evidence.block or 0)
            return
        wrong_chain = evidence.chain_id is not None
        node.state = State.OUT
        node.failures += 1
        wait = self._options.pause_max if wrong_chain else evidence.wait
        node.resume_at = self._monotonic() + self._pause(node, wait)

    def look_again(self, seconds: float) -> None:
        """Let the next question wait for a new probe of every URL that is gone, unless one ended that recently."""
        now = self._monotonic()
        for node in self._nodes:
            if node.state is State.OUT and not node.answers and now - node.probed_at >= seconds:
                node.resume_at = now

    def seen(self) -> list[Seen]:
        """What is known of every URL, in the order they were given, without asking."""
        return [Seen(node.shown, node.answers, node.reason) for node in self._nodes]

    async def probe_each(self) -> list[Evidence]:
        """Every URL asked once, now, whatever its state and without changing it."""
        timeout = self._options.try_timeout
        examined = (examine(self._client, node, self.chain_id, timeout) for node in self._nodes)
        return list(await asyncio.gather(*examined))

    def _what_happened(self) -> str:
        if not self._nodes:
            return "no RPC URL is configured"
        return "; ".join(f"{node.shown} {node.reason or 'did not answer in time'}" for node in self._nodes[:8])

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _as_it_is(answer: Any) -> Any:
    return answer
