"""Sends questions to one node: singly or in batches of a size that it accepts. Every result is inspected."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from relaydeck.background import gather_some
from relaydeck.networks.evm.client import BatchRefused, Client
from relaydeck.networks.evm.errors import NodeError, UrlFailed
from relaydeck.networks.evm.figures import Figures, figures_of
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.questions import Question

T = TypeVar("T")
_MAX_TOGETHER = 16  # requests of one batch that a node does not take whole


class Sender:
    def __init__(self, client: Client, max_batch: int, problem: Callable[[Node, Figures], str]) -> None:
        """`problem` tells why an answer with these figures is not believed."""
        self._client = client
        self._max_batch = max_batch
        self._problem = problem

    async def ask(self, node: Node, question: Question[T]) -> T:
        return await self._client.ask(node.url, question, partial(self._inspect, node))

    async def ask_with_figures(self, node: Node, question: Question[T]) -> tuple[T, Figures]:
        """For a question that has figures."""
        found: list[Figures] = []
        value = await self._client.ask(node.url, question, partial(self._inspect, node, found=found))
        return value, found[0] if found else Figures()

    def _inspect(self, node: Node, question: Question[Any], result: Any, found: list[Figures] | None = None) -> None:
        figures = figures_of(question.method, question.params, result)
        if figures is None:
            return
        if problem := self._problem(node, figures):
            raise UrlFailed(problem)
        if found is not None:
            found.append(figures)

    async def ask_batch(self, node: Node, questions: Sequence[Question[Any]]) -> list[Any]:
        """Independent questions. An answer may be a `NodeError`."""
        size = node.batch_size
        parts = [questions[start : start + size] for start in range(0, len(questions), size)]
        answers = await gather_some(_MAX_TOGETHER, partial(self._ask_part, node), parts)
        return [each for part in answers for each in part]

    async def _ask_part(self, node: Node, questions: Sequence[Question[Any]]) -> list[Any]:
        """In one request, unless the node refuses batches: then in several smaller ones, or one by one."""
        if node.batches and len(questions) > 1:
            try:
                answers = await self._client.ask_batch(node.url, questions, partial(self._inspect, node))
                node.grow_batches(len(questions))
                return [node.scrubbed(each) if isinstance(each, NodeError) else each for each in answers]
            except BatchRefused:
                if len(questions) > self._max_batch:  # smaller batches may be accepted
                    node.shrink_batches(len(questions))
                    return await self.ask_batch(node, questions)
                node.batches = False
            except (UrlFailed, asyncio.CancelledError):  # cancelled: it timed out
                node.shrink_batches(len(questions))
                raise
        return await gather_some(_MAX_TOGETHER, partial(self._ask_without_raising, node), questions)

    async def _ask_without_raising(self, node: Node, question: Question[T]) -> T | NodeError:
        try:
            return await self.ask(node, question)
        except NodeError as error:
            return node.scrubbed(error)


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
