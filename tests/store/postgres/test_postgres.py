"""What only a database server brings: notifications of commits, writers that wait for each other, and its driver."""

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest

from relaydeck.errors import StoreError, StoreRefusal, StoreTrouble
from relaydeck.notifications import delivery_queries, delivery_queue
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.changes import prune_removals
from relaydeck.store.copying.mark import REVOKED, record_revoked
from relaydeck.store.database import Transaction, without_progress
from relaydeck.store.migrate import UPDATE, _update_in_batches, migrate
from relaydeck.store.open_store import open_store_at
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.write_signal import WriteSignal
from relaydeck.timestamps import utc
from tests.store.test_database import add_network
from tests.support.postgres import PostgresServer, write
from tests.support.running import eventually, run_command
from tests.support.seeding import fill


def test_a_statement_that_failed_unnoticed_is_not_committed_as_if_it_had_not(database: PostgresDatabase) -> None:
    with pytest.raises(StoreTrouble), database.transaction() as transaction, suppress(StoreError):
        transaction.execute("SELECT * FROM nowhere")
    assert database.read("SELECT revision FROM clock") == [(0,)]


def test_an_unversioned_write_returns_its_rows_and_changes_neither_revision_nor_signal(
    database: PostgresDatabase,
) -> None:
    with database.transaction() as transaction:
        add_network(transaction, "a")
    signal = database.write_signal.last()
    (row,) = database.write_unversioned("UPDATE networks SET chain_id = :id RETURNING name, chain_id", {"id": 2})
    assert (row.name, row.chain_id) == ("a", 2)
    with closing(database.open_reader()) as other:
        assert other.read("SELECT chain_id, clock.revision FROM networks, clock") == [(2, 1)]
    assert database.write_signal.last() == signal


def test_an_unversioned_write_that_fails_changes_nothing_and_the_next_one_works(database: PostgresDatabase) -> None:
    with database.transaction() as transaction:
        add_network(transaction, "a")
    with pytest.raises(StoreRefusal):
        database.write_unversioned("UPDATE networks SET chain_id = NULL")
    assert database.read("SELECT chain_id FROM networks") == [(1,)]
    assert len(database.write_unversioned("UPDATE networks SET chain_id = 3 RETURNING name")) == 1


def test_a_writer_that_is_kept_waiting_gives_up_with_trouble(
    url: DatabaseUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relaydeck.store.postgres._LONGEST_LOCK_WAIT", 0.2)
    write_signal = WriteSignal(tmp_path / "write-signal")
    hasty = DatabaseUrl(f"{url.reveal()}?options=-c%20lock_timeout%3D50ms")
    with (
        closing(PostgresDatabase(url, write_signal)) as first,
        closing(PostgresDatabase(hasty, write_signal)) as second,
    ):
        with (
            first.transaction(),
            pytest.raises(StoreTrouble, match="another transaction holds the lock"),
        ):
            write(second)
        assert write(second) == 2


WAITING = "SELECT 1 FROM pg_stat_activity WHERE datname = '{name}' AND wait_event_type = 'Lock'"


def test_a_writer_that_waited_begins_with_what_it_waited_for(
    url: DatabaseUrl, tmp_path: Path, postgres: PostgresServer
) -> None:
    """The end of the audit log and the newest key: else it would write a link twice, or seal with a retired key."""
    write_signal, began = WriteSignal(tmp_path / "write-signal"), []

    def begin_and_tell(database: PostgresDatabase) -> None:
        with database.transaction() as transaction:
            began.append((transaction.revision, transaction.chain_end, transaction.newest_key))

    with closing(PostgresDatabase(url, write_signal)) as first, closing(PostgresDatabase(url, write_signal)) as second:
        write(second)
        waits = threading.Thread(target=begin_and_tell, args=(second,))
        with first.transaction() as transaction:
            waits.start()
            while not postgres.ask(WAITING.format(name=second.writer.info.dbname)):
                assert waits.is_alive()
            transaction.execute("INSERT INTO data_keys (id, wrapped, created_at) VALUES (7, :key, 0)", {"key": b"k"})
            columns = ("seq", "moment", "actor", "action", "record", "hash")
            transaction.insert("audit", columns, [(1, 0, "cli:me", "token.created", "t", b"the first link")])
        waits.join()
    assert began == [(3, (1, b"the first link"), 7)]


def test_a_write_is_durable_even_where_the_server_would_not_wait(
    postgres: PostgresServer, url: DatabaseUrl, database: PostgresDatabase
) -> None:
    name = str(url).rpartition("/")[2]
    postgres.ask(f"ALTER DATABASE {name} SET synchronous_commit = off")
    try:
        with database.transaction() as transaction:
            assert transaction.one("SHOW synchronous_commit") == ("on",)
    finally:
        postgres.ask(f"ALTER DATABASE {name} RESET synchronous_commit")


def test_the_commands_work_as_they_do_on_sqlite(home: Path, tmp_path: Path) -> None:
    fill(home)
    fill(tmp_path / "file")
    for command in [("export",), ("signer", "list", "--json"), ("key", "rotate"), ("audit", "verify")]:
        here, there = run_command(home, *command), run_command(tmp_path / "file", *command)
        assert (here.returncode, here.stderr) == (there.returncode, there.stderr) == (0, "")
        assert _timeless(here.stdout) == _timeless(there.stdout)


def _timeless(text: str) -> str:
    return re.sub(r"head .*", "head", text)


def test_of_sessions_that_wait_for_each_other_the_one_that_none_blocks_holds_the_write_lock(
    database: PostgresDatabase, url: DatabaseUrl
) -> None:
    with closing(database.open_reader()) as watching, closing(psycopg.connect(url.reveal())) as stranger:
        stranger.execute("LOCK TABLE removals")
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(_delete_removals, database)
            eventually(lambda: bool(watching.read("SELECT 1 FROM pg_locks WHERE NOT granted")))
            found = watching.write_lock_holder()
            stranger.rollback()
            waiting.result()
        assert found is not None
        assert (found.pid, found.replica, found.activity) == (stranger.info.backend_pid, "", "idle")


def _delete_removals(database: PostgresDatabase) -> None:
    with database.transaction() as transaction:
        transaction.execute("DELETE FROM removals")


def test_a_lock_on_the_whole_clock_is_found_without_waiting_for_it(
    database: PostgresDatabase, url: DatabaseUrl
) -> None:
    with closing(psycopg.connect(url.reveal(), application_name="someone")) as stranger:
        stranger.execute("LOCK TABLE clock")
        found, pid = database.write_lock_holder(), stranger.info.backend_pid
    assert found is not None
    assert str(found) == f"session {pid} (someone, 127.0.0.1), in a transaction since {utc(found.since)}: idle"


@contextmanager
def _slowed_down(database: PostgresDatabase, table: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each statement that changes rows of a table takes longer than others may."""
    monkeypatch.setattr("relaydeck.store.postgres.LONGEST_STATEMENT", 0.4)
    database.writer.execute(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.6); RETURN NULL; END'"
    )
    database.writer.execute(f"CREATE TRIGGER slow AFTER UPDATE OR DELETE ON {table} EXECUTE FUNCTION slow()".encode())
    database.writer.execute("SET statement_timeout = '300ms'")
    try:
        yield
    finally:
        database.writer.execute("DROP FUNCTION slow CASCADE")


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("deliveries", delivery_queries.replay_all_dead),
        ("deliveries", partial(delivery_queue.end_deliveries, notification_id="pager")),
        ("removals", prune_removals),
    ],
)
def test_a_statement_that_changes_any_number_of_rows_may_take_long(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch, table: str, change: Callable[[Transaction], object]
) -> None:
    migrate(database)
    with _slowed_down(database, table, monkeypatch), database.transaction() as transaction:
        change(transaction)
    monkeypatch.setattr("relaydeck.store.postgres.LONGEST_STATEMENT", 60)
    with pytest.raises(StoreTrouble, match="statement timeout"), database.transaction() as transaction:
        transaction.execute("SELECT pg_sleep(60)")  # the next one has the server's usual limit


def test_so_may_the_one_that_completes_a_restore(home: Path, url: DatabaseUrl, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    with closing(open_store_at(home, url, home / "master.key")) as store:
        database = store.database
        assert isinstance(database, PostgresDatabase)
        database.writer.execute(f"CREATE TABLE {REVOKED} (kind TEXT, name TEXT, moment BIGINT)".encode())
        with _slowed_down(database, "signers", monkeypatch):
            record_revoked(database, store.vault)
        assert not database.has_table(REVOKED)


def test_an_index_that_cannot_be_built_leaves_the_limits_of_writes_as_they_were(database: PostgresDatabase) -> None:
    with pytest.raises(StoreError):
        database.build_index("of_nothing", "CREATE INDEX of_nothing ON nowhere (nothing)")
    with database.transaction() as transaction:
        limits = ("statement_timeout", "lock_timeout")
        found = [transaction.one(f"SELECT current_setting('{name}') AS found") for name in limits]
    assert found == [("7s",), ("3s",)]


def test_a_client_that_falls_silent_in_a_batch_of_a_migration_holds_its_locks_for_seconds(
    database: PostgresDatabase,
) -> None:
    migrate(database)
    with database.transaction() as transaction:
        transaction.insert("removals", ("revision", "resource", "seq"), [(1, "x", 1)])
    limit = "current_setting('idle_in_transaction_session_timeout')"
    update = UPDATE.match(f"UPDATE removals SET resource = {limit} WHERE resource = 'x'")
    assert update is not None
    _update_in_batches(database, update, without_progress)
    assert database.read("SELECT resource FROM removals") == [("4s",)]
