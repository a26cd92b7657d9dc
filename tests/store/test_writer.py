"""Group commit: neighbours share a sync, not their failures."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from relaydeck.errors import ServerFailure, SignerExists
from relaydeck.store.database import Database, Transaction
from relaydeck.store.sqlite import SqliteDatabase
from relaydeck.store.writer import MOST_AT_ONCE, Writer
from tests.support.statements import run_statement


def note(number: int) -> Callable[[Transaction], int]:
    def work(transaction: Transaction) -> int:
        transaction.execute(
            "INSERT INTO removals (revision, resource, seq) VALUES (:r, 'x', :n)",
            {"r": transaction.revision, "n": number},
        )
        return number

    return work


def noted(database: Database) -> list[int]:
    """In the order of insertion: neither database has a reason to give another."""
    return [row[0] for row in database.read("SELECT seq FROM removals")]


class Gate:
    """Holds the writing thread, so that what comes meanwhile is one group."""

    def __init__(self, writer: Writer) -> None:
        self._entered, self._opened = threading.Event(), threading.Event()
        self.passed = asyncio.ensure_future(writer.write(self._hold))

    def _hold(self, _: Transaction) -> None:
        self._entered.set()
        assert self._opened.wait(60)

    async def entered(self) -> None:
        assert await asyncio.to_thread(self._entered.wait, 10)

    def open(self) -> None:
        self._opened.set()


async def gathered(gate: Gate, *writes: Coroutine[None, None, object]) -> list[object]:
    await gate.entered()
    tasks = [asyncio.ensure_future(write) for write in writes]
    await asyncio.sleep(0)  # every write is queued
    gate.open()
    await gate.passed
    return await asyncio.gather(*tasks, return_exceptions=True)


async def jointly(writer: Writer, work: Callable[..., Any], item: object) -> object:
    return await writer.write_jointly(work, item)


async def test_a_write_gives_what_its_work_gave(database: Database) -> None:
    writer = Writer(database)
    assert await writer.write(note(5)) == 5
    await writer.stop()


async def test_a_write_is_in_the_database_when_it_returns(database: Database) -> None:
    writer = Writer(database)
    await writer.write(note(5))
    assert noted(database) == [5]
    await writer.stop()


async def test_writes_that_wait_together_take_one_revision(database: Database) -> None:
    writer = Writer(database)
    revisions = await gathered(Gate(writer), *(writer.write(lambda t: t.revision) for _ in range(20)))
    await writer.stop()
    assert len(set(revisions)) == 1


async def test_a_failing_write_does_not_undo_its_neighbours(database: Database) -> None:
    def fails(transaction: Transaction) -> None:
        note(666)(transaction)
        raise SignerExists("taken")

    writer = Writer(database)
    outcomes = await gathered(Gate(writer), writer.write(note(1)), writer.write(fails), writer.write(note(2)))
    await writer.stop()
    assert [outcomes[0], type(outcomes[1]), outcomes[2], noted(database)] == [1, SignerExists, 2, [1, 2]]


DEFERRED = "CREATE TABLE later (r TEXT REFERENCES networks (name) DEFERRABLE INITIALLY DEFERRED)"


async def test_a_failing_commit_fails_every_write_of_its_group(database: Database) -> None:
    """A deferred reference is looked at by COMMIT alone, so each write succeeds and their commit does not."""
    run_statement(database, "CREATE TABLE later (r TEXT REFERENCES networks (name) DEFERRABLE INITIALLY DEFERRED)")
    writer = Writer(database)
    outcomes = await gathered(
        Gate(writer),
        writer.write(note(1)),
        writer.write(lambda t: t.execute("INSERT INTO later VALUES ('nowhere')")),
        writer.write(note(2)),
    )
    await writer.stop()
    assert [type(outcome) for outcome in outcomes] == [ServerFailure] * 3
    assert noted(database) == []


async def test_the_group_after_a_failed_commit_is_committed(database: Database) -> None:
    run_statement(database, "CREATE TABLE later (r TEXT REFERENCES networks (name) DEFERRABLE INITIALLY DEFERRED)")
    writer = Writer(database)
    with pytest.raises(ServerFailure):
        await writer.write(lambda t: t.execute("INSERT INTO later VALUES ('nowhere')"))
    await writer.write(note(3))
    await writer.stop()
    assert noted(database) == [3]


async def test_a_store_that_fails_inside_a_write_fails_its_group(database: Database) -> None:
    writer = Writer(database)
    outcomes = await gathered(
        Gate(writer), writer.write(note(1)), writer.write(lambda t: t.execute("INSERT INTO nowhere VALUES (1)"))
    )
    await writer.stop()
    assert [type(outcome) for outcome in outcomes] == [ServerFailure] * 2
    assert noted(database) == []


async def test_many_writes_are_all_made_and_answered_in_order(database: Database) -> None:
    writer = Writer(database)
    amount = 513
    outcomes = await gathered(Gate(writer), *(writer.write(note(n)) for n in range(amount)))
    await writer.stop()
    assert outcomes == noted(database) == list(range(amount))


async def test_stop_finishes_what_waits(database: Database) -> None:
    writer = Writer(database)
    gate = Gate(writer)
    await gate.entered()
    writes = [asyncio.ensure_future(writer.write(note(n))) for n in range(266)]
    await asyncio.sleep(0)
    stopping = asyncio.ensure_future(writer.stop())
    await asyncio.sleep(0)
    gate.open()
    await stopping
    assert await asyncio.gather(*writes) == noted(database)


async def test_a_client_that_leaves_does_not_take_its_write_along(database: Database) -> None:
    writer = Writer(database)
    gate = Gate(writer)
    await gate.entered()
    left = asyncio.ensure_future(writer.write(note(1)))
    await asyncio.sleep(0)
    left.cancel()
    stays = asyncio.ensure_future(writer.write(note(2)))
    await asyncio.sleep(0)
    gate.open()
    assert await stays == 2
    await writer.stop()
    assert noted(database) == [1, 2]


async def test_joint_writes_share_one_call_and_get_their_own_answers(database: Database) -> None:
    writer, calls = Writer(database), []

    def work(transaction: Transaction, items: Sequence[int]) -> list[int | Exception]:
        calls.append(list(items))
        return [ValueError("odd") if item % 2 else note(item)(transaction) for item in items]

    outcomes = await gathered(Gate(writer), *(jointly(writer, work, n) for n in range(4)))
    await writer.stop()
    assert calls == [[0, 1, 2, 3]]
    assert [str(outcome) for outcome in outcomes] == ["0", "odd", "2", "odd"]
    assert noted(database) == [0, 2]


async def test_a_joint_write_that_fails_is_made_again_one_by_one(database: Database) -> None:
    writer = Writer(database)

    def work(transaction: Transaction, items: Sequence[int]) -> list[int | Exception]:
        written = [note(item)(transaction) for item in items]
        if 1 in items:
            raise ValueError("not this one")
        return list(written)

    outcomes = await gathered(Gate(writer), *(jointly(writer, work, n) for n in range(3)))
    await writer.stop()
    assert [str(outcome) for outcome in outcomes] == ["0", "not this one", "2"]
    assert noted(database) == [0, 2]


def thread_of(_: Transaction, items: Sequence[str]) -> list[str]:
    return [threading.current_thread().name for _ in items]


async def test_short_writes_to_a_file_do_not_leave_the_event_loop(database: Database) -> None:
    writer = Writer(database)
    threads = await gathered(Gate(writer), *(jointly(writer, thread_of, "") for _ in range(3)))
    await writer.stop()
    assert set(threads) == {"writer" if database.remote else threading.current_thread().name}


async def test_nor_do_short_writes_of_several_kinds(database: Database) -> None:
    def other(transaction: Transaction, items: Sequence[str]) -> list[str]:
        return [f"other: {thread}" for thread in thread_of(transaction, items)]

    writer = Writer(database)
    threads = await gathered(Gate(writer), *(jointly(writer, work, "") for work in (thread_of, other, thread_of)))
    await writer.stop()
    here = "writer" if database.remote else threading.current_thread().name
    assert threads == [here, f"other: {here}", here]


async def test_the_thread_only_commits_short_writes_to_a_file(database: Database) -> None:
    if not isinstance(database, SqliteDatabase):
        return  # the thread writes everything to a server
    run: list[str] = []
    database.writer.set_trace_callback(lambda sql: run.append(f"{threading.current_thread().name}: {sql.split()[0]}"))
    writer = Writer(database)
    await writer.write_jointly(thread_of, "")
    await writer.stop()
    assert [each for each in run if each.startswith("writer")] == ["writer: COMMIT"]


async def test_a_short_write_that_fails_does_not_undo_one_of_another_kind(database: Database) -> None:
    def faulty(transaction: Transaction, items: Sequence[int]) -> list[int]:
        raise ValueError("not this one")

    def work(transaction: Transaction, items: Sequence[int]) -> list[int]:
        return [note(item)(transaction) for item in items]

    writer = Writer(database)
    outcomes = await gathered(Gate(writer), *(jointly(writer, each, 7) for each in (work, faulty)))
    await writer.stop()
    assert [str(outcome) for outcome in outcomes] == ["7", "not this one"]
    assert noted(database) == [7]


async def test_a_very_large_group_is_made_by_the_thread(database: Database) -> None:
    writer = Writer(database)
    threads = await gathered(Gate(writer), *(jointly(writer, thread_of, "") for _ in range(MOST_AT_ONCE + 1)))
    await writer.stop()
    assert threads == ["writer"] * (MOST_AT_ONCE + 1)


async def test_a_write_that_may_take_long_is_made_by_the_thread(database: Database) -> None:
    writer = Writer(database)
    assert await writer.write(lambda _: threading.current_thread().name) == "writer"
    await writer.stop()


async def test_short_writes_to_a_file_do_not_wait_in_the_thread_for_one_that_may_take_long(database: Database) -> None:
    writer = Writer(database)
    alone = writer.write(lambda _: threading.current_thread().name)
    threads = await gathered(Gate(writer), jointly(writer, thread_of, ""), alone, jointly(writer, thread_of, ""))
    await writer.stop()
    here = "writer" if database.remote else threading.current_thread().name
    assert threads == [here, "writer", here]


async def test_nor_does_the_long_one_wait_for_more_than_one_group_of_them(database: Database) -> None:
    def work(transaction: Transaction, items: Sequence[int]) -> list[int]:
        return [note(item)(transaction) for item in items]

    async def twice() -> None:
        await writer.write_jointly(work, 1)
        await writer.write_jointly(work, 3)

    writer = Writer(database)
    await gathered(Gate(writer), twice(), writer.write(note(2)))
    await writer.stop()
    assert noted(database) == [1, 2, 3]


async def test_the_event_loop_does_not_wait_for_another_process_that_writes(connect: Callable[[], Database]) -> None:
    writer = Writer(connect())
    with connect().transaction():
        waiting = [writer.write_jointly(thread_of, "") for _ in range(2)]
        for _ in range(20):
            await asyncio.sleep(0)
        assert not any(write.done() for write in waiting)
    assert await asyncio.gather(*waiting) == ["writer", "writer"]
    await writer.stop()


async def test_a_failing_commit_fails_every_short_write_of_its_group(database: Database) -> None:
    run_statement(database, "CREATE TABLE later (r TEXT REFERENCES networks (name) DEFERRABLE INITIALLY DEFERRED)")
    writer = Writer(database)

    def work(transaction: Transaction, items: Sequence[int]) -> list[int]:
        if 2 in items:
            transaction.execute("INSERT INTO later VALUES ('nowhere')")
        return [note(item)(transaction) for item in items]

    outcomes = await gathered(Gate(writer), *(jointly(writer, work, n) for n in range(3)))
    assert [type(outcome) for outcome in outcomes] == [ServerFailure] * 3
    assert await writer.write_jointly(work, 3) == 3
    await writer.stop()
    assert noted(database) == [3]


async def test_a_work_that_miscounts_writes_nothing_and_leaves_nobody_waiting(database: Database) -> None:
    writer = Writer(database)

    def work(transaction: Transaction, items: Sequence[int]) -> list[int]:
        return [note(item)(transaction) for item in items] + [7]

    outcomes = await gathered(Gate(writer), *(jointly(writer, work, n) for n in range(3)))
    await writer.stop()
    assert [type(outcome) for outcome in outcomes] == [ServerFailure] * 3
    assert noted(database) == []


async def test_an_outcome_that_a_future_does_not_accept_fails_one_write(database: Database) -> None:
    def work(_: Transaction, items: Sequence[str]) -> Sequence[Exception]:
        return [StopIteration() for _ in items]

    writer = Writer(database)
    outcomes = await gathered(Gate(writer), jointly(writer, work, ""), writer.write(note(1)))
    await writer.stop()
    assert [str(outcome) for outcome in outcomes] == ["the work ended with StopIteration", "1"]
