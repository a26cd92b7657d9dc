"""Sends questions to one node: singly or in batches of a size that it accepts."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

from relaydeck.networks.evm.client import BatchRefused, Client
from relaydeck.networks.evm.errors import ErrorKind, NodeError, UrlFailed, error_kind
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.questions import Question
from relaydeck.process.background import gather_some

T = TypeVar("T")
_MAX_TOGETHER = 16  # requests of one batch that a node does not take whole


class Sender:
    def __init__(self, client: Client, max_batch: int) -> None:
        self._client = client
        self._max_batch = max_batch

    async def ask(self, node: Node, question: Question[T]) -> T:
        return await self._client.ask(node.url, question)

    async def ask_together(self, node: Node, questions: Sequence[Question[Any]]) -> list[Any]:
        """The answers in order, some of which may be a `NodeError`. Raises that of a node over its limits."""
        answers = await self.ask_batch(node, questions)
        for answer in answers:
            if isinstance(answer, NodeError) and error_kind(answer) is ErrorKind.BUSY:
                node.shrink_batches(len(questions))
                raise answer
        return answers

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
                answers = await self._client.ask_batch(node.url, questions)
                node.grow_batches(len(questions))
                return answers
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
            return error


class OneNode:
    """One URL of a pool, for a caller that adapts its questions to what this node offers."""

    def __init__(self, node: Node, sender: Sender) -> None:
        self.key = node  # the same object in every conversation with this URL
        self._sender = sender

    async def ask(self, *questions: Question[Any]) -> list[Any]:
        """Independent questions in one request. An answer may be a `NodeError`. Raises `UrlFailed`, or the `NodeError`
        of a node over its limits."""
        return await self._sender.ask_together(self.key, questions)
