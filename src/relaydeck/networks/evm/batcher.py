"""Questions asked at the same moment travel as one batch; the same question travels once."""

import asyncio
from typing import Any, TypeVar

from relaydeck.networks.evm.error_kind import ErrorKind, error_kind
from relaydeck.networks.evm.errors import NodeError, NodesUnreachable
from relaydeck.networks.evm.pool import Answer, NodePool
from relaydeck.networks.evm.question import Question

T = TypeVar("T")
_Waiting = list[tuple[Question[Any], "asyncio.Future[Answer[Any]]"]]


class Batcher:
    """For what several estimates share. A question of one estimate alone goes to the pool directly, so that
    nothing shared ever waits for a slow one."""

    def __init__(self, pool: NodePool, max_batch: int) -> None:
        self._pool = pool
        self._max_batch = max_batch
        self._waiting: dict[str, tuple[Question[Any], asyncio.Future[Answer[Any]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, question: Question[T]) -> Answer[T]:
        key = f"{question.method} {question.params!r}"
        entry = self._waiting.get(key)
        if entry is None:
            loop = asyncio.get_running_loop()
            if not self._waiting:
                loop.call_soon(self._flush_when_quiet, 0)
            entry = self._waiting[key] = (question, loop.create_future())
        return await asyncio.shield(entry[1])

    def _flush_when_quiet(self, before: int) -> None:
        """An estimate asks over a few turns of the loop: wait for a turn without a new question."""
        if len(self._waiting) > before:
            asyncio.get_running_loop().call_soon(self._flush_when_quiet, len(self._waiting))
        else:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting = list(self._waiting.values()), {}
        for start in range(0, len(waiting), self._max_batch):
            task = asyncio.ensure_future(self._send(waiting[start : start + self._max_batch]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

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
            await self._settle(question, future, Answer(value, answer.node))

    async def _settle(
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
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    future.set_exception(error)
    future.exception()  # the asker may be gone: nobody need be told twice
