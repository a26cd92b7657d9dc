"""Group commit: writes that wait together are committed together, and answered after the one sync.

One thread owns the writing connection. While it syncs one group, the next one gathers; so the cost of
durability is shared by as many clients as are waiting, and none is answered before its write is safe.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from relaydeck.errors import ServerFailure
from relaydeck.store.database import Database, Transaction

Result = TypeVar("Result")
MOST_IN_A_GROUP = 256


class _Waiting(NamedTuple):
    work: Callable[[Transaction], Any]
    answer: "asyncio.Future[Any]"


class Writer:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Run `work` in a transaction; returns once its effect is on disk, or raises what it raised."""
        answer: asyncio.Future[Result] = self._loop.create_future()
        self._waiting.put(_Waiting(work, answer))
        return await answer

    async def stop(self) -> None:
        """Finish what is waiting, then end."""
        self._waiting.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while group := self._next_group():
            outcomes = self._commit(group)
            self._loop.call_soon_threadsafe(_settle, group, outcomes)

    def _next_group(self) -> list[_Waiting]:
        first = self._waiting.get()
        if first is None:
            return []
        group = [first]
        while len(group) < MOST_IN_A_GROUP:
            try:
                waiting = self._waiting.get_nowait()
            except queue.Empty:
                break
            if waiting is None:
                self._waiting.put(None)  # stop after this group
                break
            group.append(waiting)
        return group

    def _commit(self, group: list[_Waiting]) -> list[Any]:
        try:
            with self._database.transaction() as transaction:
                return [_outcome(waiting.work, transaction) for waiting in group]
        except Exception as error:
            # Whatever it was, nothing of this group was committed, and the next group gets its own try.
            failure = ServerFailure(f"the store did not take the write: {type(error).__name__}: {error}")
            return [failure] * len(group)


def _outcome(work: Callable[[Transaction], Any], transaction: Transaction) -> Any:
    try:
        with transaction.step():
            return work(transaction)
    except sqlite3.OperationalError:
        raise  # the disk, not the work: the whole group fails
    except Exception as error:
        return error


def _settle(group: list[_Waiting], outcomes: list[Any]) -> None:
    for waiting, outcome in zip(group, outcomes, strict=True):
        if waiting.answer.done():
            continue  # the client left; its write stands all the same
        if isinstance(outcome, Exception):
            waiting.answer.set_exception(outcome)
        else:
            waiting.answer.set_result(outcome)
