"""Sends questions that are asked at the same moment as one batch, and equal questions once."""

import asyncio
from typing import Any, TypeVar

from relaydeck.networks.evm.agreement import Decision
from relaydeck.networks.evm.errors import NodeError, NodesDisagree, NodesUnreachable
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import Question
from relaydeck.process.background import TaskSet

T = TypeVar("T")
_QUIET_TURNS = 4  # a source of a rate asks its feeds, and each of these two questions
_Waiting = list[tuple[Question[Any], "asyncio.Future[Any]"]]


class Batcher:
    """For questions that several estimates share. A question of one estimate goes to the pool directly, so that
    a slow one never delays the others."""

    def __init__(self, pool: NodePool, max_batch: int) -> None:
        self._pool = pool
        self._max_batch = max_batch
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
        for start in range(0, len(waiting), self._max_batch):
            self._tasks.start(self._send(waiting[start : start + self._max_batch]))

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
