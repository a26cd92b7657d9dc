"""Sends questions that are asked at the same moment as one batch, and equal questions once."""

import asyncio
from typing import Any, TypeVar

from relaydeck.background import TaskSet
from relaydeck.networks.evm.calls import Answer
from relaydeck.networks.evm.errors import ErrorKind, NodeError, NodesUnreachable, error_kind
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import Question

T = TypeVar("T")
_Waiting = list[tuple[Question[Any], "asyncio.Future[Answer[Any]]"]]


class Batcher:
    """For questions that several estimates share. A question of one estimate goes to the pool directly, so that
    a slow one never delays the others."""

    def __init__(self, pool: NodePool, max_batch: int) -> None:
        self._pool = pool
        self._max_batch = max_batch
        self._waiting: dict[str, tuple[Question[Any], asyncio.Future[Answer[Any]]]] = {}
        self._tasks = TaskSet()

    async def ask(self, question: Question[T]) -> Answer[T]:
        if self._pool.compares(question.method):
            return await self._pool.ask(question)  # of several nodes, so it cannot share a request
        key = f"{question.method} {question.params!r}"
        entry = self._waiting.get(key)
        if entry is None:
            loop = asyncio.get_running_loop()
            if not self._waiting:
                loop.call_soon(self._flush_when_quiet, 0)
            entry = self._waiting[key] = (question, loop.create_future())
        return await asyncio.shield(entry[1])

    def _flush_when_quiet(self, before: int) -> None:
        """An estimate asks its questions over a few turns of the event loop: wait for a turn without a new one."""
        if len(self._waiting) > before:
            asyncio.get_running_loop().call_soon(self._flush_when_quiet, len(self._waiting))
        else:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting = list(self._waiting.values()), {}
        for start in range(0, len(waiting), self._max_batch):
            self._tasks.start(self._send(waiting[start : start + self._max_batch]))

    async def _send(self, waiting: _Waiting) -> None:
        try:
            if len(waiting) == 1:
                waiting[0][1].set_result(await self._pool.ask(waiting[0][0]))
                return
            answer = await self._pool.ask_all([question for question, _ in waiting])
        except (NodeError, NodesUnreachable) as error:
            for _, future in waiting:
                _fail(future, error)
            return
        for (question, future), value in zip(waiting, answer.value, strict=True):
            await self._resolve(question, future, Answer(value, answer.node))

    async def _resolve(
        self, question: Question[Any], future: "asyncio.Future[Answer[Any]]", answer: Answer[Any]
    ) -> None:
        error = answer.value
        try:
            if isinstance(error, NodeError) and error_kind(error) in (ErrorKind.BUSY, ErrorKind.PASSING):
                answer = await self._pool.ask(question)  # another node may know
            elif isinstance(error, NodeError):
                raise error
        except (NodeError, NodesUnreachable) as failure:
            _fail(future, failure)
        else:
            future.set_result(answer)

    async def close(self) -> None:
        await self._tasks.cancel()


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    future.set_exception(error)
    future.exception()  # marks it as retrieved: the caller may be gone
