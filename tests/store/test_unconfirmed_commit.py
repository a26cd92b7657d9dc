"""A commit is sent to PostgreSQL, and its answer is late or lost: the write is answered by what the commit did."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest

from relaydeck.admin.store_thread import StoreThread
from relaydeck.errors import ServerFailure, StoreTrouble
from relaydeck.settings.model import read_settings
from relaydeck.store.audit import AuditEntry, AuditLog
from relaydeck.store.database import Transaction
from relaydeck.store.open_store import Store, open_store_at
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.postgres_connection import interrupt
from relaydeck.store.writer import Writer
from tests.support.postgres import PostgresServer

# A deferred trigger runs inside the commit, and waits there for a lock that the test has.
_HOLD_COMMITS = """
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON audit DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold()
"""
_HELD = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 1 AND NOT granted"


@pytest.fixture
def name(postgres: PostgresServer, migrated: str) -> str:
    return postgres.fresh(migrated)


@pytest.fixture
def store(postgres: PostgresServer, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr("relaydeck.store.postgres._LONGEST_SEARCH", 30.0)
    home = tmp_path / "home"
    home.mkdir()
    with closing(open_store_at(home, postgres.url(name), home / "master.key")) as store:
        yield store


Write = Callable[[Callable[[Transaction], str]], Awaitable[str]]


class HeldCommit:
    """A write whose commit the server has received and does not complete until `release`."""

    def __init__(self, store: Store, postgres: PostgresServer, name: str, write: Write | None = None) -> None:
        assert isinstance(store.database, PostgresDatabase)
        self.database, self._postgres, self._name = store.database, postgres, name
        self._audit = AuditLog(store.vault)
        self._lock = psycopg.connect(postgres.url(name).reveal(), autocommit=True)
        self._lock.execute(_HOLD_COMMITS)
        self._lock.execute("SELECT pg_advisory_lock(1)")
        self.writer = Writer(store.database, lambda: "")
        self.answer = asyncio.ensure_future((write or self.writer.write)(self._write))

    def _write(self, transaction: Transaction) -> str:
        self._audit.append(transaction, [AuditEntry(1, "root", "signer.created", "signers/a")])
        return "written"

    async def process(self) -> int:
        """Of the server, when it has the commit."""
        while not (held := self._postgres.ask(_HELD, self._name)):
            assert not self.answer.done()
            await asyncio.sleep(0.01)
        return int(held[0][0])

    def release(self) -> None:
        self._lock.close()

    @property
    def is_stored(self) -> bool:
        return bool(self._postgres.ask("SELECT 1 FROM audit", self._name))


async def test_a_write_whose_commit_is_sent_is_not_failed_when_the_database_becomes_unavailable(
    store: Store, postgres: PostgresServer, name: str
) -> None:
    held = HeldCommit(store, postgres, name)
    await held.process()
    held.writer.fail_pending("another connection broke")
    held.database.suspend()
    held.release()
    assert (await held.answer, held.is_stored) == ("written", True)
    await held.writer.stop()


@pytest.fixture
def applies(postgres: PostgresServer, name: str, tmp_path: Path) -> Iterator[StoreThread]:
    home, url = str(tmp_path / "home"), postgres.url(name).reveal()
    applies = StoreThread(read_settings({"RELAYDECK_HOME": home, "RELAYDECK_DATABASE_URL": url}), "applies")
    yield applies
    applies.close()


async def apply(applies: StoreThread, write: Callable[[Transaction], str]) -> str:
    def on_store(store: Store) -> str:
        with store.database.transaction() as transaction:
            written = write(transaction)
            applies.require_answerable()
            return written

    return await applies.write(on_store)


async def test_an_apply_whose_commit_is_sent_is_not_failed_when_the_database_becomes_unavailable(
    store: Store, postgres: PostgresServer, name: str, applies: StoreThread
) -> None:
    held = HeldCommit(store, postgres, name, partial(apply, applies))
    await held.process()
    applies.suspend()
    held.release()
    assert (await held.answer, held.is_stored) == ("written", True)
    await held.writer.stop()


async def test_an_apply_that_was_failed_before_its_commit_is_not_made(store: Store, applies: StoreThread) -> None:
    begun, failed, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()

    def write(transaction: Transaction) -> str:
        transaction.execute("INSERT INTO removals (revision, resource, seq) VALUES (1, 'x', 1)")
        loop.call_soon_threadsafe(begun.set)
        assert failed.wait(60)
        return "written"

    answer = asyncio.ensure_future(apply(applies, write))
    await begun.wait()
    applies.suspend()
    with pytest.raises(StoreTrouble, match="the database is unreachable"):
        await answer
    applies.resume()
    failed.set()
    assert await applies.run(lambda store: store.database.read("SELECT * FROM removals")) == []


async def test_a_write_that_was_failed_before_its_commit_is_not_made(store: Store) -> None:
    writer, begun, failed = Writer(store.database, lambda: ""), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work(transaction: Transaction) -> None:
        transaction.execute("INSERT INTO removals (revision, resource, seq) VALUES (1, 'x', 1)")
        loop.call_soon_threadsafe(begun.set)
        assert failed.wait(60)

    answer = asyncio.ensure_future(writer.write(work))
    await begun.wait()
    writer.fail_pending("it hangs")
    failed.set()
    with pytest.raises(ServerFailure, match="the database became unavailable: it hangs"):
        await answer
    await writer.stop()
    assert store.database.read("SELECT * FROM removals") == []


async def test_a_stored_write_whose_connection_breaks_before_the_answer_is_acknowledged(
    store: Store, postgres: PostgresServer, name: str
) -> None:
    held = HeldCommit(store, postgres, name)
    await held.process()
    interrupt(held.database.writer)
    held.release()
    assert (await held.answer, held.is_stored) == ("written", True)
    await held.writer.stop()


async def test_a_write_that_the_server_rolled_back_is_answered_as_not_accepted(
    store: Store, postgres: PostgresServer, name: str
) -> None:
    held = HeldCommit(store, postgres, name)
    process = await held.process()
    postgres.ask(f"SELECT pg_terminate_backend({process})")
    with pytest.raises(ServerFailure, match="the database did not accept the write: StoreTrouble"):
        await held.answer
    assert not held.is_stored
    held.release()
    await held.writer.stop()


async def test_a_write_that_may_be_stored_is_answered_as_such(
    store: Store, postgres: PostgresServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relaydeck.store.postgres._LONGEST_SEARCH", 0.2)
    held = HeldCommit(store, postgres, name)
    await held.process()
    interrupt(held.database.writer)
    with pytest.raises(ServerFailure, match="the server did not confirm the commit, so the write may be stored"):
        await held.answer
    held.release()
    await held.writer.stop()
