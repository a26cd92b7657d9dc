"""The database server hangs up, falls silent or disappears: every wait ends, and no lock is left behind."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import StoreTrouble, StoreUnconfirmed, StoreUnreachable
from relaydeck.store import postgres_connection
from relaydeck.store.migrate import migrate
from relaydeck.store.open_store import open_store_at
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.postgres_connection import PostgresConnection, connect
from relaydeck.store.write_signal import WriteSignal
from tests.postgres import PostgresServer, write
from tests.postgres_faults import drop_what_arrives, hang_up, lost_on_the_way, silent
from tests.running import Running, clean_environment, eventually, run_command


def test_a_read_on_a_silent_connection_is_repeated_on_another_one_after_its_bound(database: PostgresDatabase) -> None:
    silenced = database.reader
    silenced.longest_wait = 0.2
    with silent(silenced):
        assert [row.one for row in database.read("SELECT 1 AS one")] == [1]
    assert silenced.closed


def test_a_statement_of_a_write_on_a_silent_connection_fails_after_its_bound(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relaydeck.store.postgres.LONGEST_STATEMENT", 0.2)
    migrate(database)
    with (
        pytest.raises(StoreTrouble, match="the database server does not answer"),
        database.transaction() as transaction,
        silent(database.writer),
    ):
        transaction.execute("SELECT 1")
    assert write(database) > 0


def test_an_answer_that_came_while_this_process_was_kept_from_looking_counts(database: PostgresDatabase) -> None:
    connection, sleeping = database.reader, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    with closing(database.open_reader()) as watching, connection.waiting(0.9), ThreadPoolExecutor(1) as thread:
        answer = thread.submit(connection.execute, "SELECT pg_sleep(0.5)")
        eventually(lambda: bool(watching.read(sleeping)))
        ctypes.PyDLL(None).usleep(999_999)  # without releasing the interpreter
        answer.result()
    assert not connection.closed


def lose_in_a_transaction(database: PostgresDatabase, lost: ExitStack) -> None:
    """The connection that writes, until `lost` is closed."""
    with pytest.raises(StoreTrouble, match="does not answer"), database.transaction() as transaction:
        lost.enter_context(lost_on_the_way(database.writer))
        with database.writer.waiting(0.2):
            transaction.execute("SELECT 1")


def test_the_transaction_of_a_connection_that_the_network_lost_delays_no_other_writer(
    database: PostgresDatabase,
) -> None:
    migrate(database)
    with ExitStack() as lost:
        lose_in_a_transaction(database, lost)
        assert write(database) > 0


def test_nor_does_it_when_the_next_connection_is_lost_as_well(
    database: PostgresDatabase, url: DatabaseUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(database)
    with ExitStack() as lost:
        lose_in_a_transaction(database, lost)

        def connect_and_lose(*, writes: bool) -> PostgresConnection:
            connection = connect(url, writes=writes)
            lost.enter_context(lost_on_the_way(connection))
            connection.longest_wait = 0.2
            return connection

        with monkeypatch.context() as patched, pytest.raises(StoreTrouble, match="does not answer"):
            patched.setattr(database, "_connect", connect_and_lose)
            write(database)
        assert write(database) > 0


def test_the_statements_that_set_up_a_session_have_the_limit_of_connecting(
    url: DatabaseUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that accepts a connection and then does not answer: its usual limit is a minute."""
    monkeypatch.setattr("relaydeck.store.postgres_connection._DURABLE", "SELECT pg_sleep(30)")
    with pytest.raises(StoreUnreachable, match="the database server does not answer"):
        connect(url, writes=True, soon=True)


@pytest.mark.parametrize("last", ["", "SELECT pg_sleep(60)", "SELECT pg_sleep(0.2)"])
def test_the_server_frees_the_locks_of_a_client_that_disappeared(
    url: DatabaseUrl, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    """While it is idle, runs a statement, or waits for its answer to arrive."""
    _shorten_keepalives(monkeypatch)
    lost = connect(url, writes=True)
    lost.execute("SELECT pg_advisory_lock(1)")
    if last:
        lost.pgconn.send_query(last.encode())
    drop_what_arrives(lost)
    with closing(connect(url)) as other:
        other.execute("SELECT pg_advisory_lock(1)")  # fails after ten seconds
    lost.pgconn.finish()


def _shorten_keepalives(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute becomes a second or two."""
    for name in ("_KEEPALIVES", "_MORE_KEEPALIVES"):
        setting = getattr(postgres_connection, name)
        for long, short in (("= 30", "= 1"), ("= 10;", "= 1;"), ("= 3", "= 1"), ("60000", "1000"), ("10s", "100ms")):
            setting = setting.replace(long, short)
        monkeypatch.setattr(postgres_connection, name, setting)


def test_the_server_ends_an_idle_transaction_that_writes_and_no_other(database: PostgresDatabase) -> None:
    setting = "SELECT current_setting('idle_in_transaction_session_timeout') AS found"
    assert [row.found for row in database.write_unversioned(setting)] == ["1min"]
    with database.transaction() as transaction:
        assert [row.found for row in transaction.all(setting)] == ["1min"]
    with database.snapshot():
        assert [row.found for row in database.read(setting)] == ["0"]


def test_a_connection_lost_in_a_transaction_fails_it_and_the_next_one_connects_anew(
    database: PostgresDatabase, postgres: PostgresServer
) -> None:
    with pytest.raises(StoreTrouble), database.transaction() as transaction:
        hang_up(database.writer, postgres)
        transaction.execute("DELETE FROM removals")
    assert write(database) == 1


def test_a_connection_lost_between_transactions_is_not_noticed(
    database: PostgresDatabase, postgres: PostgresServer
) -> None:
    write(database)
    hang_up(database.writer, postgres)
    assert write(database) == 2


def test_a_reader_connects_anew_when_its_server_hung_up(database: PostgresDatabase, postgres: PostgresServer) -> None:
    database.read("SELECT 1")
    hang_up(database.reader, postgres)
    assert database.read("SELECT 1") == [(1,)]


def test_a_snapshot_is_not_gone_on_with_on_another_connection(
    database: PostgresDatabase, postgres: PostgresServer
) -> None:
    with pytest.raises(StoreTrouble), database.snapshot():
        hang_up(database.reader, postgres)
        database.read("SELECT 1")


def await_readiness(running: Running) -> None:
    until = time.monotonic() + 60
    while running.ask("GET", "/readyz").body != b"ready\n":
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_service_outlives_a_restart_of_its_database(tmp_path: Path) -> None:
    server = PostgresServer()
    try:
        home, url = tmp_path / "home", server.url(server.fresh())
        with closing(open_store_at(home, url, home / "master.key")):
            pass
        token = run_command(home, "token", "create", "me", database_url=url.reveal()).stdout.strip()
        with Running(home, token=token, database_url=url.reveal()) as running:
            signer = {"type": "plain", "config": {"key": "11" * 32}}
            assert running.ask("POST", "/api/v1/signers", {"id": "one", **signer}).status == 201
            server.stop()
            assert running.ask("POST", "/api/v1/signers", {"id": "two", **signer}).status == 500
            server.start()
            await_readiness(running)
            assert running.ask("POST", "/api/v1/signers", {"id": "three", **signer}).status == 201
            listed = running.ask("GET", "/api/v1/signers").json["data"]
    finally:
        server.remove()
    assert [each["id"] for each in listed] == ["one", "three"]


_WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


_IMPATIENT = """
from relaydeck.cli import main
from relaydeck.store import postgres
postgres.LONGEST_STATEMENT = 5.0
main()
"""


def test_a_command_with_a_silent_connection_ends_with_code_1(home: Path, database: PostgresDatabase) -> None:
    run_command(home, "token", "list")
    command = [sys.executable, "-c", _IMPATIENT, "token", "create", "late"]
    with closing(database.open_reader()) as reader, database.transaction():  # the command waits for its end
        process = subprocess.Popen(command, env=clean_environment(home), stderr=subprocess.PIPE, text=True)
        while not (found := reader.read(_WAITING, {})):
            assert process.poll() is None
        os.kill(found[0][0], signal.SIGSTOP)
        try:
            _, error = process.communicate(timeout=60)
        finally:
            os.kill(found[0][0], signal.SIGCONT)
            process.kill()
    assert (process.returncode, error) == (
        1,
        "relaydeck: the database failed to complete the operation: the database server does not answer\n"
        "Run 'relaydeck doctor' to check it.\n",
    )


def test_a_commit_that_the_server_does_not_confirm_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The synchronous standby is away, so a commit waits for ever. No timeout of the server ends that."""
    monkeypatch.setattr("relaydeck.store.postgres._LONGEST_COMMIT", 0.2)
    monkeypatch.setattr("relaydeck.store.postgres._LONGEST_SEARCH", 0.2)
    server = PostgresServer()
    try:
        with closing(PostgresDatabase(server.url(), WriteSignal(tmp_path / "signal"))) as database:
            migrate(database)
            database.serves_requests = True
            server.ask("ALTER SYSTEM SET synchronous_standby_names = 'gone'")
            server.ask("SELECT pg_reload_conf()")
            with pytest.raises(StoreUnconfirmed, match="the write may be stored: the database server does not answer"):
                while True:  # the server takes a moment to read its settings again
                    write(database)
    finally:
        server.remove()
