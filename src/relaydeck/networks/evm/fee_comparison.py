"""Compares the fee data of several URLs of a pool, so that one node that lies is not believed."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from relaydeck.networks.evm.agreement import Witness, believed_by_bounds, believed_by_quorum, testimony
from relaydeck.networks.evm.calls import Answer, Call, Calls, Moved, Slow
from relaydeck.networks.evm.errors import NodeError, NodesDisagree, NodesUnreachable, UrlFailed
from relaydeck.networks.evm.figures import COMPARED
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.questions import Question
from relaydeck.networks.evm.sender import Sender
from relaydeck.networks.evm.upkeep import Upkeep
from relaydeck.networks.evm.view import ChainView

T = TypeVar("T")
_MAX_WITNESSES = 5  # nodes whose fee data are compared


class FeeComparison:
    def __init__(self, calls: Calls, sender: Sender, upkeep: Upkeep, view: ChainView) -> None:
        self.disagreements = 0  # times that nodes answered different fee data
        self.dispute = ""  # what the nodes answered, while none is believed, or a quorum is required and not all agree
        self._calls = calls
        self._sender = sender
        self._upkeep = upkeep
        self._view = view

    def compares(self, method: str) -> bool:
        """Whether the answers of several URLs are compared: with a quorum, and until two URLs were heard lately."""
        if method not in COMPARED:
            return False
        if self._view.rules.quorum > 1:
            return True
        if not self._upkeep.is_introduced:
            return len(self._upkeep.nodes) > 1
        return len(self._upkeep.fresh) > 1 and len(self._view.sampled(method)) < 2

    async def compare(self, question: Question[T], call: Call[T]) -> Answer[T]:
        quorum, factor = self._view.rules.quorum, self._view.rules.price_factor
        first = self._upkeep.fresh[: _MAX_WITNESSES if quorum > 1 else 2]
        witnesses, refusals = await self._hear(question, call, first)
        if quorum > 1:
            if refusals and not witnesses:
                raise refusals[0]  # they agree that this question has no answer
            believed = believed_by_quorum(witnesses, quorum, factor)
            self.dispute = "" if len(believed) == len(witnesses) > 0 else testimony(witnesses)
        else:
            agree = len(witnesses) == 2 and witnesses[0].agrees(witnesses[1], factor)
            if len(witnesses) == 2 and not agree:
                witnesses += (await self._hear(question, call, self._upkeep.fresh[2:_MAX_WITNESSES]))[0]
            believed = witnesses if agree else self._believed(witnesses)
            self.dispute = testimony(witnesses) if len(witnesses) > 1 and not believed else ""
        self._note_disagreement(witnesses, believed)
        if believed:
            return Answer(believed[0].value, believed[0].node.shown)
        if quorum > 1 or len(witnesses) > 1:
            raise NodesDisagree(f"no {max(quorum, 2)} nodes agree on the price of gas: {testimony(witnesses)}")
        return await self._calls.run(call)

    def _believed(self, witnesses: list[Witness]) -> list[Witness]:
        newest = self._view.newest
        base_fee = newest.base_fee if newest else None
        return believed_by_bounds(witnesses, self._view.rules.price_factor, base_fee) if witnesses else []

    async def _hear(
        self, question: Question[T], call: Call[T], nodes: Sequence[Node]
    ) -> tuple[list[Witness], list[NodeError]]:
        """The answers, and the errors of nodes that do not answer this question."""
        found = await asyncio.gather(*(self._witness(question, call, node) for node in nodes))
        witnesses = [each for each in found if isinstance(each, Witness)]
        return witnesses, [each for each in found if isinstance(each, NodeError)]

    async def _witness(self, question: Question[T], call: Call[T], node: Node) -> Witness | NodeError | None:
        # Without a label there is no second request: the answer of another node must not count as this one's.
        own = Call(lambda node: self._sender.ask_with_figures(node, question), call.deadline, question, "")
        try:
            value, figures = await self._calls.attempt(node, own)
        except UrlFailed as failure:
            self._upkeep.doubt(node, failure)
        except NodeError as error:
            return self._calls.refusal(node, error, own)
        except (NodesUnreachable, Moved, Slow):
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
