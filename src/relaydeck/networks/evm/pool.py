"""A weighted pool over the URLs of one chain: when one URL fails, the question goes to the next.

Invariants:
- Only reads are asked, so a question may be repeated on another URL.
- A URL is asked only after a probe has found the right chain id on it. There is one probe at a time per URL.
- A call never waits for the probe of one URL while another URL is usable.
- A timeout counts against a URL only when it had a fair time to answer and answered no other call meanwhile.
- A question that fails never closes a URL by itself: a probe that fails does, or two different questions in a row that
  fail here and that another URL answers. One caller's question cannot take the nodes away from the others.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from relaydeck.background import TaskSet, gather_some
from relaydeck.networks.evm.client import BatchRefused, Client
from relaydeck.networks.evm.errors import ErrorKind, NodeError, NodesUnreachable, UrlFailed, error_kind
from relaydeck.networks.evm.node import Node, State
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.evm.probe import Evidence, probe
from relaydeck.networks.evm.questions import Question
from relaydeck.networks.model import RpcUrl

T = TypeVar("T")
_MAX_TOGETHER = 16  # requests of one batch that a node does not take whole
_MAX_LARGE_BATCHES = 4  # under way: more would time out in the queue of a node that answers one after the other
_MAX_TRIES = 2  # of one question on one URL; the second one only after a successful probe


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    value: T
    node: str  # scheme and host


class NodeState(NamedTuple):
    """The last known state of a URL. `problem` contains our own words and is empty when there is no problem."""

    node: str  # scheme and host
    answers: bool
    problem: str


class OneNode:
    """One URL of a pool, for a caller that adapts its questions to what this node offers."""

    def __init__(self, node: Node, pool: "NodePool") -> None:
        self.key = node  # the same object in every conversation with this URL
        self._pool = pool

    async def ask(self, question: Question[T]) -> T:
        """Raises `NodeError` or `UrlFailed`."""
        return await self._pool.ask_one(self.key, question)

    async def ask_all(self, questions: Sequence[Question[Any]]) -> list[Any]:
        """Independent questions in one request. An answer may be a `NodeError`."""
        return await self._pool.ask_batch(self.key, questions)


class _Moved(Exception):
    """The URL was set aside while the call was under way."""


class _Slow(Exception):
    """The URL did not answer this call in time, but it did answer others."""


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
        self.head = 0  # the newest block number in any answer
        self._client = client
        self._options = options
        self._monotonic = monotonic
        self._jitter = jitter or random.Random()  # noqa: S311 - spreads probes, hides nothing
        self._nodes = [Node(url, options) for url in urls]
        self.large_batches = asyncio.Semaphore(_MAX_LARGE_BATCHES)  # held by callers that send one
        self._tasks = TaskSet()

    # -- asking -----------------------------------------------------------------------------------

    async def ask(self, question: Question[T], deadline: float | None = None) -> Answer[T]:
        """`deadline` is on the event loop's clock. Raises `NodeError` or `NodesUnreachable`."""
        return await self._run(lambda node: self.ask_one(node, question), deadline, question)

    async def ask_all(self, questions: Sequence[Question[Any]], deadline: float | None = None) -> Answer[list[Any]]:
        """Independent questions to one URL, together. An answer may be a `NodeError`."""
        return await self._run(lambda node: self.ask_batch(node, questions), deadline, questions)

    async def converse(self, talk: Callable[[OneNode], Awaitable[T]], deadline: float | None = None) -> Answer[T]:
        """Questions to one URL that depend on each other. When the URL fails, `talk` starts again with the next."""
        return await self._run(lambda node: talk(OneNode(node, self)), deadline, talk)

    async def ask_one(self, node: Node, question: Question[T]) -> T:
        return await self._client.ask(node.url, question)

    async def ask_batch(self, node: Node, questions: Sequence[Question[Any]]) -> list[Any]:
        size = node.batch_size
        parts = [questions[start : start + size] for start in range(0, len(questions), size)]
        answers = await gather_some(_MAX_TOGETHER, partial(self._ask_part, node), parts)
        return [each for part in answers for each in part]

    async def _ask_part(self, node: Node, questions: Sequence[Question[Any]]) -> list[Any]:
        """In one request, unless the node refuses batches: then in several smaller ones, or one by one."""
        if node.batches and len(questions) > 1:
            try:
                answers = await self._client.ask_batch(node.url, questions)
                node.grow_batches(len(questions))
                return [node.scrubbed(each) if isinstance(each, NodeError) else each for each in answers]
            except BatchRefused:
                if len(questions) > self._options.max_batch:  # smaller batches may be accepted
                    node.shrink_batches(len(questions))
                    return await self.ask_batch(node, questions)
                node.batches = False
            except (UrlFailed, asyncio.CancelledError):  # cancelled: it timed out
                node.shrink_batches(len(questions))
                raise
        return await gather_some(_MAX_TOGETHER, partial(self._ask_without_raising, node), questions)

    async def _ask_without_raising(self, node: Node, question: Question[T]) -> T | NodeError:
        try:
            return await self._client.ask(node.url, question)
        except NodeError as error:
            return node.scrubbed(error)

    def seen_block(self, number: int) -> None:
        self.head = max(self.head, number)

    # -- one question, over several URLs ----------------------------------------------------------

    async def _run(self, send: Callable[[Node], Awaitable[T]], deadline: float | None, key: object) -> Answer[T]:
        """`key` is the question: a URL that fails the same one again is not blamed twice."""
        if deadline is None:
            deadline = asyncio.get_running_loop().time() + self._options.deadline
        tries: Counter[Node] = Counter()
        failed: dict[Node, UrlFailed] = {}
        passing: NodeError | None = None
        while node := await self._next(tries, deadline):
            try:
                value = await self._attempt(node, send, tries, deadline)
            except _Moved:
                continue
            except _Slow:
                pass
            except UrlFailed as failure:
                self._doubt(node, failure)
                failed[node] = failure
            except NodeError as error:
                passing = self._passing_error(node, error, tries) or passing
            else:
                if failed:
                    self._blame(failed, key)
                return Answer(value, node.shown)
            tries[node] += 1
        for node, problem in failed.items():
            node.note_failure(problem)
        if passing is not None:
            raise passing
        raise NodesUnreachable(self._problems())

    def _passing_error(self, node: Node, error: NodeError, tries: Counter[Node]) -> NodeError | None:
        """An error after which another node may answer. Raises an error that is the node's answer."""
        match error_kind(error):
            case ErrorKind.BUSY:
                self._doubt(node, UrlFailed("is over its limits", busy=True, wait=error.wait))
            case ErrorKind.DENIED:
                self._doubt(node, UrlFailed("does not accept our key", busy=True, wait=self._options.pause_max))
            case ErrorKind.PASSING:
                tries[node] = _MAX_TRIES  # it would answer the same again
                return node.scrubbed(error)
            case _:
                raise node.scrubbed(error) from None
        return None

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
        node.note_answer(loop.time())
        return result

    def _share(self, node: Node, remaining: float, tries: Counter[Node]) -> float:
        """The time this try gets of what is left, so that every URL that may answer gets its turn."""
        left_to_try = [other for other in self._nodes if tries[other] < _MAX_TRIES]
        if tries[node]:  # the last try: no time is reserved for URLs that are out
            return remaining / max(1, sum(1 for other in left_to_try if other.state is State.UP))
        left = sum(1 for other in left_to_try if other.in_prospect)
        return remaining if left <= 1 else min(self._options.try_timeout, remaining / left)

    def _too_late(self, node: Node, epoch: int, started: float, granted: float) -> Exception:
        """The failure that a timeout means."""
        if node.epoch != epoch:
            return _Moved()
        if not started:
            return NodesUnreachable(f"{node.shown} had no connection free in time")
        if node.answered_at > started:  # another call, meanwhile: the URL is slow or busy, not unreachable
            return _Slow()
        if granted < self._options.try_timeout / 4:
            return NodesUnreachable("no node answered in time: " + self._problems())
        return UrlFailed("timed out", silent=True)

    # -- which URL is next ------------------------------------------------------------------------

    async def _next(self, tries: Counter[Node], deadline: float) -> Node | None:
        loop = asyncio.get_running_loop()
        while True:
            candidates, probes = self._candidates(tries)
            if candidates:
                return _choose(candidates)
            if not probes or loop.time() >= deadline:
                return None
            await asyncio.wait(probes, timeout=deadline - loop.time(), return_when=asyncio.FIRST_COMPLETED)

    def _candidates(self, tries: Counter[Node]) -> tuple[list[Node], list[asyncio.Task[None]]]:
        """The URLs to choose from now, or else the probes to wait for."""
        probes: list[asyncio.Task[None]] = []
        for tier in self._tiers(tries):
            usable = self._usable(tier, tries)
            probes += [node.probe for node in tier if node.probe is not None]
            if usable or any(node.state is State.NEW for node in tier):
                return usable, probes
        return [], probes

    def _tiers(self, tries: Counter[Node]) -> Iterator[list[Node]]:
        """In the order of use: spare URLs when no other is left, URLs that failed this call after all others."""
        yield [node for node in self._nodes if not node.spare and not tries[node]]
        yield [node for node in self._nodes if node.spare and not tries[node]]
        yield [node for node in self._nodes if 0 < tries[node] < _MAX_TRIES]

    def _usable(self, nodes: list[Node], tries: Counter[Node]) -> list[Node]:
        now = self._monotonic()
        for node in nodes:
            if node.needs_probe(now):
                self._start_probe(node)
        # A URL that failed this call is tried again after its probe.
        return [node for node in nodes if node.state is State.UP and not (tries[node] and node.probe)]

    # -- set aside and probed back ----------------------------------------------------------------

    def _doubt(self, node: Node, failure: UrlFailed) -> None:
        """The question may be the cause of a failure, so a probe decides, unless the node itself asks for a pause."""
        if node.state is not State.UP:
            return
        node.reason = failure.reason
        if failure.busy:
            node.failures += 1
            self._set_aside(node, answers=True, pause=self._pause(node, failure.wait))
        elif failure.silent:
            self._set_aside(node, answers=False, pause=0.0)
            self._start_probe(node)
        elif node.probe is None and self._monotonic() - node.doubted_at >= self._options.pause_base:
            node.doubted_at = self._monotonic()
            self._start_probe(node)

    def _blame(self, failed: dict[Node, UrlFailed], question: object) -> None:
        """Another URL answered what these failed. Two different questions in a row are no accident."""
        for node, failure in failed.items():
            if failure.busy or node.failed_question == question:
                continue
            node.failed_question = question
            node.failures += 1
            if node.failures > 1:
                self._set_aside(node, answers=node.answers, pause=self._pause(node))

    def _set_aside(self, node: Node, *, answers: bool, pause: float) -> None:
        node.resume_at = self._monotonic() + pause
        node.answers = answers
        if node.state is not State.UP:
            return
        node.state = State.OUT
        node.epoch += 1
        if any(other.state is not State.OUT for other in self._nodes):
            node.release_calls()

    def _pause(self, node: Node, wanted: float | None = None) -> float:
        grown = self._options.pause_base * (1 << min(node.failures - 1, 20))
        pause = min(self._options.pause_max, grown) * self._jitter.uniform(0.5, 1.0)
        return max(pause, min(wanted or 0.0, self._options.longest_wait))

    def _start_probe(self, node: Node) -> None:
        node.probe = self._tasks.start(self._probe(node))

    async def _probe(self, node: Node) -> None:
        try:
            evidence = await probe(self._client, node, self.chain_id, self._options.try_timeout)
        finally:
            node.probe = None
        node.probed_at = self._monotonic()
        if not evidence.ok:
            self._probe_failed(node, evidence)
            return
        self.seen_block(evidence.block or 0)
        node.answers = True
        if node.probed_at >= node.resume_at:  # otherwise it was blamed during the probe
            node.state = State.UP
            node.reason = ""

    def _probe_failed(self, node: Node, evidence: Evidence) -> None:
        node.reason = evidence.error
        node.failures += 1
        wrong_chain = evidence.chain_id is not None
        wait = self._options.pause_max if wrong_chain else evidence.wait
        self._set_aside(node, answers=evidence.answers, pause=self._pause(node, wait))
        node.state = State.OUT

    def probe_unreachable(self, seconds: float) -> None:
        """Let the next question wait for a new probe of every unreachable URL not probed in the last `seconds`."""
        now = self._monotonic()
        for node in self._nodes:
            if node.state is State.OUT and not node.answers and now - node.probed_at >= seconds:
                node.resume_at = now

    def states(self) -> list[NodeState]:
        """The last known state of every URL, in the configured order."""
        return [NodeState(node.shown, node.answers, node.reason) for node in self._nodes]

    async def probe_each(self) -> list[Evidence]:
        """Probe every URL once, now, without changing its state."""
        timeout = self._options.try_timeout
        probes = (probe(self._client, node, self.chain_id, timeout) for node in self._nodes)
        return list(await asyncio.gather(*probes))

    def _problems(self) -> str:
        if not self._nodes:
            return "no RPC URL is configured"
        return "; ".join(f"{node.shown} {node.reason or 'did not answer in time'}" for node in self._nodes[:8])

    async def close(self) -> None:
        await self._tasks.cancel()


def _choose(nodes: Sequence[Node]) -> Node:
    """Smooth weighted round robin: converges to the weights without bursts. Spare URLs take turns."""
    if len(nodes) == 1:
        return nodes[0]
    total = 0
    for node in nodes:
        share = node.weight or 1
        node.credit += share
        total += share
    chosen = max(nodes, key=lambda node: node.credit)
    chosen.credit -= total
    return chosen
