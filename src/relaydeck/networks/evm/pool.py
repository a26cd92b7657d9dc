"""A weighted pool over the URLs of one chain: as many nodes as must agree are asked, and others when one fails.

Invariants:
- Only reads are asked, so a question may be repeated on another URL.
- A URL is asked only after a probe has found the right chain id on it. There is one probe at a time per URL.
- A call never waits for the probe of one URL while another URL is usable, except for a moment before the first answer.
- The newest block is the one that most nodes have. A URL that is behind it is asked only when no fresher one answers.
- Nodes that must agree are asked about the same block, each for itself: no answer of one counts as that of another.
- A timeout counts against a URL only when it had a fair time to answer and answered no other call meanwhile.
- A question that fails never closes a URL by itself: a probe that fails does, or two different questions in a row that
  fail here and that another URL answers. One caller's question cannot take the nodes away from the others.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from relaydeck.networks.chains import UNKNOWN, ChainFacts
from relaydeck.networks.evm.agreement import (
    FORGED,
    MOST_NODES,
    Agreement,
    Decision,
    Dispute,
    Poll,
    Subject,
    by_question,
    least,
    poll,
    similar,
)
from relaydeck.networks.evm.calls import Answer, Call, Calls, Said, is_settled
from relaydeck.networks.evm.client import Client, OneNode
from relaydeck.networks.evm.errors import NodeError, NodesDisagree, NodesUnreachable
from relaydeck.networks.evm.header import NEWEST_BLOCK, Header, block_question, fitting_facts
from relaydeck.networks.evm.node import SMALL_BATCH, Fault, Node, State
from relaydeck.networks.evm.node_figures import NodeFigures, fault_key, newer, node_figures
from relaydeck.networks.evm.node_health import NodeHealth, newest_block
from relaydeck.networks.evm.options import PoolOptions, PoolRules, usual_quorum
from relaydeck.networks.evm.questions import Question
from relaydeck.networks.model import RpcUrl
from relaydeck.process.background import TaskSet

T = TypeVar("T")
AtBlock = Callable[[str], Sequence[Question[Any]]]  # questions about a block
_MAX_LARGE_BATCHES = 4  # under way: more would time out in the queue of a node that answers one after the other
_WITH_NODE = "with_node"  # the label of its times


class Reading(NamedTuple):
    """The newest block, and what the nodes that have it answered about it."""

    head: Header
    said: list[Said]


class NodePool:
    def __init__(
        self,
        urls: Iterable[RpcUrl],
        chain_id: int,
        client: Client,
        options: PoolOptions,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        jitter: random.Random | None = None,
    ) -> None:
        self.chain_id = chain_id
        self.rules = PoolRules()
        self.newest: Header | None = None  # that most nodes had, when it was last read
        self.large_batches = asyncio.Semaphore(_MAX_LARGE_BATCHES)  # held by callers that send one
        self.nodes = [Node(url, options) for url in urls]  # in the configured order
        self._usual_quorum = usual_quorum(not node.spare for node in self.nodes)
        self._options = options
        self._client = client
        self._now = now
        self._fitting = (UNKNOWN, UNKNOWN)  # the facts as given, and without the rules that the chain does not follow
        spread = jitter or random.Random()  # noqa: S311 - spreads probes, hides nothing
        self._health = NodeHealth(self.nodes, chain_id, client, options, monotonic, spread)
        self._single = {node: OneNode(node, client) for node in self.nodes}
        self._calls = Calls(self.nodes, options, self._health)
        self._agreement = Agreement(self._calls, lambda: self.quorum, self._health.outvote)
        self.settle = self._agreement.settle
        self.probe_unreachable = self._health.probe_unreachable
        self.probe_each = self._health.probe_each

    @property
    def quorum(self) -> int:
        """How many nodes must agree."""
        return self._usual_quorum if self.rules.quorum is None else self.rules.quorum

    @property
    def usable(self) -> list[Node]:
        return [node for node in self.nodes if node.state is State.UP]

    @property
    def least(self) -> int:
        """How many answers there must be at least."""
        return least(self.quorum)

    @property
    def head(self) -> int:
        """The number of the newest block."""
        return self.newest.number if self.newest else 0

    @property
    def facts(self) -> ChainFacts:
        """What is known about the chain, without a rule that its blocks have contradicted."""
        if self._fitting[0] is not self.rules.facts:
            self._fitting = (self.rules.facts, self.rules.facts)
        return self._fitting[1]

    # -- asking -----------------------------------------------------------------------------------

    async def agree(
        self, work: Callable[[OneNode], Awaitable[T]], about: Subject[T], deadline: float | None = None, *, key: object
    ) -> Answer[T]:
        """What a quorum of nodes finds by questions that depend on each other. A node that fails is replaced.

        `key`: what the questions are about. A URL that fails the same again is not blamed twice. Raises `NodeError`
        when the nodes agree on it, `NodesUnreachable`, `NodesDisagree`.
        """
        call = Call(lambda node: work(self._single[node]), self._deadline(deadline), key, _WITH_NODE)
        if not self._health.is_introduced:
            await self._health.introduce()
        return await self._agreement.ask(call, about)

    async def ask(self, question: Question[T], deadline: float | None = None) -> Answer[T]:
        """`deadline` is on the event loop's clock. Raises as `agree`."""
        send: Callable[[Node], Awaitable[T]] = lambda node: self._client.ask(node.url, question)  # noqa: E731
        call = Call(send, self._deadline(deadline), question, question.method)
        await self._health.introduce()
        return await self._agreement.ask(call, _subject(question))

    async def ask_each(
        self, questions: Sequence[Question[Any]], deadline: float | None = None
    ) -> list[Decision | NodesDisagree]:
        """Independent questions in one request to each node. What is decided may be a `NodeError`."""
        await self._health.introduce()
        return await self._agreement.ask_each(self._batch(questions, deadline), list(map(_subject, questions)))

    async def ask_newest(self, questions: AtBlock) -> list[Decision | NodesDisagree]:
        """The same about the newest state. Nodes may be a block apart: what they answer differently, they are asked
        again about the block that most of them have."""
        asked, deadline = questions("latest"), self._deadline()
        call = self._batch(asked, deadline)
        await self._health.introduce()
        said = await self._calls.hear(call, self.quorum)
        found = {
            place: self._agreement.settled(answers, _subject(asked[place]))
            for place, answers in enumerate(by_question(said, len(asked)))
            if len(said) < self.least or _are_equal(answers)
        }
        left = [place for place in range(len(asked)) if place not in found]
        if left:
            found |= await self._ask_again(questions, left, [each.node for each in said], deadline)
        return [found[place] for place in range(len(asked))]

    async def _ask_again(
        self, questions: AtBlock, places: Sequence[int], first: Sequence[Node], deadline: float
    ) -> dict[int, Decision | NodesDisagree]:
        try:
            block = hex((await self.read(lambda _: (), deadline)).head.number)
        except NodesDisagree as failure:  # about the block: the other answers stand
            return dict.fromkeys(places, failure)
        again = [questions(block)[place] for place in places]
        call = self._batch(again, deadline, first=first)
        return dict(zip(places, await self._agreement.ask_each(call, list(map(_subject, again))), strict=True))

    async def ask_any(self, questions: Sequence[Question[Any]], deadline: float | None = None) -> Answer[list[Any]]:
        """The same of one node, whichever answers."""
        await self._health.introduce()
        ((node, value),) = await self._calls.hear(self._batch(questions, deadline), 1)
        if isinstance(value, NodeError):
            raise value
        return Answer(value, node.shown)

    def _batch(
        self, questions: Sequence[Question[Any]], deadline: float | None, first: Sequence[Node] = ()
    ) -> Call[list[Any]]:
        send: Callable[[Node], Awaitable[list[Any]]] = lambda node: self._single[node].ask(*questions)  # noqa: E731
        return Call(send, self._deadline(deadline), questions, "", first=first)

    def _deadline(self, deadline: float | None = None) -> float:
        return asyncio.get_running_loop().time() + self._options.deadline if deadline is None else deadline

    # -- the newest block -------------------------------------------------------------------------

    async def read(self, questions: AtBlock, deadline: float | None = None) -> Reading:
        """The newest block of most nodes, and their answers about it, in one request to each node.

        Raises `NodesUnreachable`, `NodesDisagree`.
        """
        deadline = self._deadline(deadline)
        await self._health.introduce()
        ask: Callable[[Node], Awaitable[list[Any]]] = lambda node: self._read_node(node, questions("latest"))  # noqa: E731
        call = Call(ask, deadline, "newest", NEWEST_BLOCK.method, for_all=True)
        heard = await self._calls.hear_most(call, self._width(), self.quorum)
        said = [(node, value) for node, value in heard if not isinstance(value, NodeError)]
        try:
            head = await self._head({node: value[0] for node, value in said}, deadline)
        except NodesDisagree as failure:
            self._agreement.note("the newest block", Dispute(str(failure), {node for node, _ in said}))
            for node, value in said:
                node.note_dispute(f"has {value[0].shown} as its newest block; {failure}")
            raise
        self._agreement.disputes.pop("the newest block", None)
        answers: list[Said] = [
            Said(node, value[1:]) for node, value in said if value[0].number == head.number and not node.stale
        ]
        ahead = [node for node, value in said if value[0].number > head.number and not node.stale]
        if ahead and questions("latest") and not is_settled(answers, len(said)):
            again = await self._of_each(ahead, questions(hex(head.number)), deadline)
            answers += [Said(node, found) for node, found in again.items()]
        return Reading(head, answers)

    def _width(self) -> int:
        up = sum(node.state is State.UP and not node.spare for node in self.nodes)
        return min(MOST_NODES, max(self.quorum, up))

    async def _read_node(self, node: Node, questions: Sequence[Question[Any]]) -> list[Any]:
        """Its newest block, and the answers. A node that returns no blocks is asked for the number of its newest."""
        if node.has_blocks:
            header, *answers = await self._single[node].ask(NEWEST_BLOCK, *questions)
            if not isinstance(header, NodeError):
                return [header, *answers]
        return [await newest_block(self._client, node), *await self._single[node].ask(*questions)]

    async def _head(self, read: Mapping[Node, Header], deadline: float) -> Header:
        polled = poll(read, self.quorum, self.facts, self._now())
        try:
            head = polled.head({})
        except NodesDisagree:
            unclear = await self._of_each(polled.unclear(), [block_question(hex(polled.number))], deadline)
            head = polled.head({node: found[0] for node, found in unclear.items() if isinstance(found[0], Header)})
        self._note(polled, head)
        return head

    async def _of_each(
        self, nodes: Sequence[Node], questions: Sequence[Question[Any]], deadline: float
    ) -> dict[Node, list[Any]]:
        """The answers of these nodes; one that fails is left out."""
        calls = [Call(lambda node: self._single[node].ask_batch(questions), deadline, "again", "") for _ in nodes]
        found = await asyncio.gather(*map(self._calls.answer_of, nodes, calls))
        return {node: answers for node, answers in zip(nodes, found, strict=True) if answers is not None}

    def _note(self, polled: Poll, head: Header) -> None:
        """What the newest block says about the nodes, and about the rules of the chain."""
        for node, header in polled.read.items():
            ahead = header.number - head.number
            node.header, node.lag = header, max(0, -ahead)
            node.stale = polled.problems.get(node, "")
            if not node.stale and -ahead > self.rules.max_lag_blocks:
                node.stale = f"is {-ahead} blocks behind"
            elif not node.stale and ahead > self.rules.max_lag_blocks:
                node.stale = f"reports block {header.number}, which most nodes have not reached"
            elif ahead == 0 and header.fields and header != head:
                node.stale = node.stale or f"has another block {head.number} than most nodes"
                self._health.outvote(node, node.stale)
            elif node.stale == FORGED:
                self._health.outvote(node, node.stale)
        if self.newest is not None:
            self._fitting = (self.rules.facts, fitting_facts(self.facts, self.newest, head))
        self.newest = head

    # -- what is known ----------------------------------------------------------------------------

    def last_faults(self, seen: Mapping[str, Fault]) -> list[Fault | None]:
        """What last went wrong with each URL, here or in another process (`NodeFigures.faults`); None: nothing yet."""
        return [newer(node.last_fault, seen.get(fault_key(self.chain_id, node.url.url))) for node in self.nodes]

    def figures(self) -> NodeFigures:
        disputes, disagreements = self._agreement.disputes, self._agreement.disagreements
        found = node_figures(self.nodes, self.chain_id, disagreements)
        if disputes:
            found.disputes = {self.chain_id: "; ".join(f"{name}: {each.said}" for name, each in disputes.items())}
        return found

    async def close(self) -> None:
        await self._calls.close()
        await self._health.close()
        await self._client.drop([node.url for node in self.nodes])


def _are_equal(said: Sequence[Said]) -> bool:
    return not isinstance(said[0].value, NodeError) and all(each.value == said[0].value for each in said)


def _subject(question: Question[Any]) -> Subject[Any]:
    name = question.about or f"the answer to {question.method}"
    return Subject(name) if question.exact else Subject(name, similar, int)


# -- Sends questions that are asked at the same moment as one batch, and equal questions once --

_QUIET_TURNS = 4  # a source of a rate asks its feeds, and each of these two questions
_Waiting = list[tuple[Question[Any], "asyncio.Future[Any]"]]


class Batcher:
    """For questions that several estimates share. A question of one estimate goes to the pool directly, so that
    a slow one never delays the others."""

    def __init__(self, pool: NodePool) -> None:
        self._pool = pool
        self._waiting: dict[str, tuple[Question[Any], asyncio.Future[Any]]] = {}
        self._tasks = TaskSet()

    async def ask(self, question: Question[T]) -> T:
        """What the nodes agree on. Raises `NodeError`, `NodesUnreachable`, `NodesDisagree`."""
        key = f"{question.method} {question.params!r}"
        entry = self._waiting.get(key)
        if entry is None:
            loop = asyncio.get_running_loop()
            if not self._waiting:
                loop.call_soon(self._flush_when_quiet, 0, 0)
            entry = self._waiting[key] = (question, loop.create_future())
        found: T = await asyncio.shield(entry[1])
        return found

    def _flush_when_quiet(self, before: int, turns: int) -> None:
        """An estimate asks its questions over a few turns of the event loop: wait for some without a new one."""
        turns = 0 if len(self._waiting) > before else turns + 1
        if turns < _QUIET_TURNS:
            asyncio.get_running_loop().call_soon(self._flush_when_quiet, len(self._waiting), turns)
        else:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting = list(self._waiting.values()), {}
        for start in range(0, len(waiting), SMALL_BATCH):
            self._tasks.start(self._send(waiting[start : start + SMALL_BATCH]))

    async def _send(self, waiting: _Waiting) -> None:
        try:
            found = await self._pool.ask_each([question for question, _ in waiting])
            answers = [each.chosen.value if isinstance(each, Decision) else each for each in found]
        except (NodeError, NodesUnreachable) as error:
            answers = [error] * len(waiting)
        for (_, future), answer in zip(waiting, answers, strict=True):
            if isinstance(answer, NodeError | NodesUnreachable | NodesDisagree):
                future.set_exception(answer)
                future.exception()  # marks it as retrieved: the caller may be gone
            else:
                future.set_result(answer)

    async def close(self) -> None:
        await self._tasks.cancel()
