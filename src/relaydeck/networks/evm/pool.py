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
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from relaydeck.networks.evm.calls import Answer, Call, Calls
from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.fee_comparison import FeeComparison
from relaydeck.networks.evm.node import Fault, Node
from relaydeck.networks.evm.node_figures import NodeFigures, fault_key, newer, node_figures
from relaydeck.networks.evm.options import PoolOptions, PoolRules
from relaydeck.networks.evm.questions import Question
from relaydeck.networks.evm.sender import OneNode, Sender
from relaydeck.networks.evm.upkeep import Upkeep
from relaydeck.networks.evm.view import ChainView
from relaydeck.networks.model import RpcUrl

T = TypeVar("T")
_MAX_LARGE_BATCHES = 4  # under way: more would time out in the queue of a node that answers one after the other
_CONVERSATION = "conversation"  # the label of its times


class NodeState(NamedTuple):
    """The last known state of a URL. `problem` contains our own words and is empty when there is no problem."""

    node: str  # scheme and host
    answers: bool
    problem: str


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
        self.large_batches = asyncio.Semaphore(_MAX_LARGE_BATCHES)  # held by callers that send one
        self._options = options
        self._client = client
        self._nodes = [Node(url, options) for url in urls]
        self._view = ChainView(PoolRules(), monotonic)
        spread = jitter or random.Random()  # noqa: S311 - spreads probes, hides nothing
        self._upkeep = Upkeep(self._nodes, chain_id, client, options, self._view, monotonic, spread)
        self._sender = Sender(client, options.max_batch, self._upkeep.problem_with)
        self._calls = Calls(self._nodes, options, self._upkeep)
        self._comparison = FeeComparison(self._calls, self._sender, self._upkeep, self._view)
        self.hedges = self._calls.hedges
        self.compares = self._comparison.compares
        self.probe_unreachable = self._upkeep.probe_unreachable
        self.probe_each = self._upkeep.probe_each
        self.seen_block = self._upkeep.seen_block

    @property
    def head(self) -> int:
        """The newest block number in any answer."""
        return self._upkeep.head

    @property
    def disagreements(self) -> int:
        """Times that nodes answered different fee data."""
        return self._comparison.disagreements

    @property
    def rules(self) -> PoolRules:
        return self._view.rules

    @rules.setter
    def rules(self, rules: PoolRules) -> None:
        self._view.rules = rules

    # -- asking -----------------------------------------------------------------------------------

    async def ask(self, question: Question[T], deadline: float | None = None) -> Answer[T]:
        """`deadline` is on the event loop's clock. Raises `NodeError` or `NodesUnreachable`."""
        call = Call(lambda node: self._sender.ask(node, question), self._deadline(deadline), question, question.method)
        await self._prepare()
        try:
            if self._comparison.compares(question.method):
                return await self._comparison.compare(question, call)
            return await self._calls.run(call)
        finally:
            self._upkeep.watch_heads()

    async def ask_all(self, questions: Sequence[Question[Any]], deadline: float | None = None) -> Answer[list[Any]]:
        """Independent questions to one URL, together. An answer may be a `NodeError`."""
        send: Callable[[Node], Awaitable[list[Any]]] = lambda node: self._sender.ask_batch(node, questions)  # noqa: E731
        call = Call(send, self._deadline(deadline), questions, "")
        await self._upkeep.introduce()
        return await self._calls.run(call)

    async def converse(
        self, talk: Callable[[OneNode], Awaitable[T]], deadline: float | None = None, *, about: object = None
    ) -> Answer[T]:
        """Questions to one URL that depend on each other. When the URL fails, `talk` starts again with the next.

        `about`: what the questions are about. A URL that fails the same again is not blamed twice.
        """
        key = talk if about is None else about
        call = Call(lambda node: talk(OneNode(node, self._sender)), self._deadline(deadline), key, _CONVERSATION)
        await self._prepare()
        try:
            return await self._calls.run(call)
        finally:
            self._upkeep.watch_heads()

    def _deadline(self, deadline: float | None) -> float:
        return asyncio.get_running_loop().time() + self._options.deadline if deadline is None else deadline

    async def _prepare(self) -> None:
        if not self._upkeep.is_introduced:
            await self._upkeep.introduce()
        self.hedges.earn()

    # -- what is known ----------------------------------------------------------------------------

    def states(self) -> list[NodeState]:
        """The last known state of every URL, in the configured order."""
        return [NodeState(node.shown, node.answers, node.reason) for node in self._nodes]

    def last_faults(self, seen: Mapping[str, Fault]) -> list[Fault | None]:
        """What last went wrong with each URL, here or in another process (`NodeFigures.faults`); None: nothing yet."""
        return [newer(node.last_fault, seen.get(fault_key(self.chain_id, node.url.url))) for node in self._nodes]

    def figures(self) -> NodeFigures:
        found, dispute = node_figures(self._nodes, self.chain_id, self.disagreements), self._comparison.dispute
        found.disputes = {self.chain_id: dispute} if dispute else {}
        return found

    async def close(self) -> None:
        await self._calls.close()
        await self._upkeep.close()
        await self._client.drop([node.url for node in self._nodes])
