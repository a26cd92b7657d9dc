"""A weighted pool over the URLs of one chain: when one URL fails, the question goes to the next.

Invariants:
- Only reads are asked, so a question may be repeated on another URL.
- A URL is asked only after a probe has found the right chain id on it. There is one probe at a time per URL.
- A call never waits for the probe of one URL while another URL is usable, except for a moment before the first answer.
- A URL that is behind the others is asked only when no fresher one answers. An answer that contradicts what the pool
  knows counts as a failure.
- A timeout counts against a URL only when it had a fair time to answer and answered no other call meanwhile.
- A question that fails never closes a URL by itself: a probe that fails does, or two different questions in a row that
  fail here and that another URL answers. One caller's question cannot take the nodes away from the others.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from relaydeck.background import TaskSet
from relaydeck.networks.evm.agreement import Witness, believed_by_bounds, believed_by_quorum, testimony
from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.errors import (
    ErrorKind,
    NodeError,
    NodesDisagree,
    NodesUnreachable,
    UrlFailed,
    error_kind,
)
from relaydeck.networks.evm.figures import COMPARED, Figures
from relaydeck.networks.evm.hedge import HedgeBudget, hedge_delay
from relaydeck.networks.evm.node import Fault, Node, State
from relaydeck.networks.evm.node_figures import NodeFigures, node_figures
from relaydeck.networks.evm.options import PoolOptions, PoolRules
from relaydeck.networks.evm.probe import Evidence
from relaydeck.networks.evm.questions import Question
from relaydeck.networks.evm.ranking import choose
from relaydeck.networks.evm.sender import Sender
from relaydeck.networks.evm.upkeep import Upkeep
from relaydeck.networks.evm.view import ChainView
from relaydeck.networks.model import RpcUrl

T = TypeVar("T")
_MAX_LARGE_BATCHES = 4  # under way: more would time out in the queue of a node that answers one after the other
_MAX_TRIES = 2  # of one question on one URL; the second one only after a successful probe
_MAX_WITNESSES = 5  # nodes whose fee data are compared
_CONVERSATION = "conversation"  # the label of its times


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

    def __init__(self, node: Node, sender: Sender) -> None:
        self.key = node  # the same object in every conversation with this URL
        self._sender = sender

    async def ask(self, question: Question[T]) -> T:
        """Raises `NodeError` or `UrlFailed`."""
        return await self._sender.ask(self.key, question)

    async def ask_all(self, questions: Sequence[Question[Any]]) -> list[Any]:
        """Independent questions in one request. An answer may be a `NodeError`."""
        return await self._sender.ask_batch(self.key, questions)


@dataclass(slots=True)
class _Call(Generic[T]):
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


class _Moved(Exception):
    """The URL was set aside while the call was under way."""


class _Slow(Exception):
    """The URL did not answer this call in time, but it did answer others."""


class _Overtaken(Exception):
    """The second request was answered first."""


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
        self.hedges = HedgeBudget()
        self.disagreements = 0  # times that nodes answered different fee data
        self._dispute = ""  # what the nodes answered, while a quorum is required and not all agree
        self.large_batches = asyncio.Semaphore(_MAX_LARGE_BATCHES)  # held by callers that send one
        self._options = options
        self._client = client
        self._nodes = [Node(url, options) for url in urls]
        self._view = ChainView(PoolRules(), monotonic)
        spread = jitter or random.Random()  # noqa: S311 - spreads probes, hides nothing
        self._upkeep = Upkeep(self._nodes, chain_id, client, options, self._view, monotonic, spread)
        self._sender = Sender(client, options.max_batch, self._problem_with)
        self._tasks = TaskSet()
        self.probe_unreachable = self._upkeep.probe_unreachable
        self.probe_each: Callable[[], Awaitable[list[Evidence]]] = self._upkeep.probe_each
        self.seen_block = self._upkeep.seen_block

    @property
    def head(self) -> int:
        """The newest block number in any answer."""
        return self._upkeep.head

    @property
    def rules(self) -> PoolRules:
        return self._view.rules

    @rules.setter
    def rules(self, rules: PoolRules) -> None:
        self._view.rules = rules

    def _problem_with(self, node: Node, figures: Figures) -> str:
        return self._view.problem(figures, node, self._upkeep.fresh)

    # -- asking -----------------------------------------------------------------------------------

    async def ask(self, question: Question[T], deadline: float | None = None) -> Answer[T]:
        """`deadline` is on the event loop's clock. Raises `NodeError` or `NodesUnreachable`."""
        call = _Call(lambda node: self._sender.ask(node, question), self._deadline(deadline), question, question.method)
        await self._prepare()
        if question.method in COMPARED and self.compares(question.method):
            return await self._compare(question, call)
        return await self._run(call)

    async def ask_all(self, questions: Sequence[Question[Any]], deadline: float | None = None) -> Answer[list[Any]]:
        """Independent questions to one URL, together. An answer may be a `NodeError`."""
        send: Callable[[Node], Awaitable[list[Any]]] = lambda node: self._sender.ask_batch(node, questions)  # noqa: E731
        call = _Call(send, self._deadline(deadline), questions, "")
        await self._upkeep.introduce()
        return await self._run(call)

    async def converse(self, talk: Callable[[OneNode], Awaitable[T]], deadline: float | None = None) -> Answer[T]:
        """Questions to one URL that depend on each other. When the URL fails, `talk` starts again with the next."""
        call = _Call(lambda node: talk(OneNode(node, self._sender)), self._deadline(deadline), talk, _CONVERSATION)
        await self._prepare()
        return await self._run(call)

    def _deadline(self, deadline: float | None) -> float:
        return asyncio.get_running_loop().time() + self._options.deadline if deadline is None else deadline

    async def _prepare(self) -> None:
        if not self._upkeep.is_introduced:
            await self._upkeep.introduce()
        self._upkeep.watch_heads()
        self.hedges.earn()

    # -- fee data of several URLs -----------------------------------------------------------------

    def compares(self, method: str) -> bool:
        """Whether the answers of several URLs are compared: with a quorum, and until two URLs were heard lately."""
        if self.rules.quorum > 1:
            return True
        if not self._upkeep.is_introduced:
            return len(self._nodes) > 1
        return len(self._upkeep.fresh) > 1 and len(self._view.sampled(method)) < 2

    async def _compare(self, question: Question[T], call: _Call[T]) -> Answer[T]:
        quorum = self.rules.quorum
        witnesses = await self._hear(question, call, self._upkeep.fresh[: _MAX_WITNESSES if quorum > 1 else 2])
        if quorum > 1:
            believed = believed_by_quorum(witnesses, quorum, self.rules.price_factor)
        else:
            if len(witnesses) == 2 and not witnesses[0].agrees(witnesses[1], self.rules.price_factor):
                witnesses += await self._hear(question, call, self._upkeep.fresh[2:_MAX_WITNESSES])
            believed = self._believed(witnesses)
        self._note_disagreement(witnesses, believed)
        if quorum > 1:
            self._dispute = "" if len(believed) == len(witnesses) > 0 else testimony(witnesses)
        if believed:
            return Answer(believed[0].value, believed[0].node.shown)
        if quorum > 1:
            raise NodesDisagree(f"no {quorum} nodes agree on the price of gas: {testimony(witnesses)}")
        return await self._run(call)

    def _believed(self, witnesses: list[Witness]) -> list[Witness]:
        newest = self._view.newest
        base_fee = newest.base_fee if newest else None
        return believed_by_bounds(witnesses, self.rules.price_factor, base_fee) if witnesses else []

    async def _hear(self, question: Question[T], call: _Call[T], nodes: Sequence[Node]) -> list[Witness]:
        found = await asyncio.gather(*(self._witness(question, call, node) for node in nodes))
        return [each for each in found if each is not None]

    async def _witness(self, question: Question[T], call: _Call[T], node: Node) -> Witness | None:
        own = _Call(lambda node: self._sender.ask_with_figures(node, question), call.deadline, question, call.label)
        try:
            value, figures = await self._attempt(node, own)
        except UrlFailed as failure:
            self._upkeep.doubt(node, failure)
        except (NodeError, NodesUnreachable, _Moved, _Slow):
            pass
        else:
            return Witness(node, value, figures)
        return None

    def _note_disagreement(self, witnesses: list[Witness], believed: list[Witness]) -> None:
        for witness in believed:
            self._view.accept(witness.node, witness.figures)
        others = [witness for witness in witnesses if witness not in believed]
        self.disagreements += bool(others)
        for witness in others:
            self._upkeep.doubt(witness.node, UrlFailed("answered other fee data than the other nodes"))

    # -- one question, over several URLs ----------------------------------------------------------

    async def _run(self, call: _Call[T]) -> Answer[T]:
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
        raise call.passing or NodesUnreachable(self._problems())

    async def _try(self, node: Node, call: _Call[T]) -> Answer[T] | None:
        """None: the next URL is to be asked."""
        try:
            return Answer(await self._attempt(node, call), node.shown)
        except _Overtaken:
            return call.won
        except _Moved:
            return call.won
        except _Slow:
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

    def _note_error(self, node: Node, error: NodeError, call: _Call[T]) -> None:
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

    async def _attempt(self, node: Node, call: _Call[T], *, is_second: bool = False) -> T:
        loop, epoch, started, granted = asyncio.get_running_loop(), node.epoch, 0.0, 0.0
        timer: asyncio.TimerHandle | None = None
        try:
            async with asyncio.timeout_at(call.deadline) as scope:
                node.scopes.add(scope)
                async with node.slots:
                    if node.epoch != epoch:
                        raise _Moved
                    started = loop.time()
                    granted = self._share(node, call.deadline - started, call.tries)
                    scope.reschedule(started + granted)
                    timer = None if is_second else self._plan_second(node, call, scope)
                    result = await call.send(node)
        except TimeoutError:
            if call.won is not None and not is_second:
                node.pace.add(call.label, loop.time() - started)  # at least so long
                raise _Overtaken from None
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
            return _Moved()
        if not started:
            return NodesUnreachable(f"{node.shown} had no connection free in time")
        if node.answered_at > started:  # another call, meanwhile: the URL is slow or busy, not unreachable
            return _Slow()
        if granted < self._options.try_timeout / 4:
            return NodesUnreachable("no node answered in time: " + self._problems())
        return UrlFailed("timed out", silent=True)

    # -- a second request -------------------------------------------------------------------------

    def _plan_second(self, node: Node, call: _Call[T], scope: asyncio.Timeout) -> asyncio.TimerHandle | None:
        if not call.label or len(self._nodes) == 1 or call.tries or call.second is not None:
            return None
        delay = hedge_delay(node.pace.p95(call.label))
        if delay is None:
            return None
        return asyncio.get_running_loop().call_later(delay, self._send_second, node, call, scope)

    def _send_second(self, node: Node, call: _Call[T], scope: asyncio.Timeout) -> None:
        others = [other for other in self._upkeep.fresh if other is not node]
        if others and self.hedges.take():
            call.second = self._tasks.start(self._answer_first(choose(others, call.label), call, scope))

    async def _answer_first(self, node: Node, call: _Call[T], scope: asyncio.Timeout) -> None:
        try:
            value = await self._attempt(node, call, is_second=True)
        except UrlFailed as failure:
            self._upkeep.doubt(node, failure)
            return
        except (NodeError, NodesUnreachable, _Moved, _Slow):
            return  # the first request decides
        call.won = Answer(value, node.shown)
        with suppress(RuntimeError):  # the first request ended in this turn of the loop
            scope.reschedule(asyncio.get_running_loop().time())

    # -- which URL is next ------------------------------------------------------------------------

    async def _next(self, call: _Call[T]) -> Node | None:
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

    # -- what is known ----------------------------------------------------------------------------

    def states(self) -> list[NodeState]:
        """The last known state of every URL, in the configured order."""
        return [NodeState(node.shown, node.answers, node.reason) for node in self._nodes]

    def last_faults(self) -> list[Fault | None]:
        """What last went wrong with each URL; None: nothing yet."""
        return [node.last_fault for node in self._nodes]

    def figures(self) -> NodeFigures:
        found = node_figures(self._nodes, self.disagreements)
        found.disputes = {self.chain_id: self._dispute} if self._dispute else {}
        return found

    def _problems(self) -> str:
        if not self._nodes:
            return "no RPC URL is configured"
        return "; ".join(f"{node.shown} {node.reason or 'did not answer in time'}" for node in self._nodes[:8])

    async def close(self) -> None:
        await self._tasks.cancel()
        await self._upkeep.close()
        await self._client.drop([node.url for node in self._nodes])
