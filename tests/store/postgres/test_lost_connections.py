"""The database server hangs up, falls silent or disappears: every wait ends, and no lock is left behind."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from relaydeck.errors import StoreTrouble, StoreUnconfirmed, StoreUnreachable
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store import postgres, postgres_connection
from relaydeck.store.lock_holder import END_SILENT, LockHolder
from relaydeck.store.migrate import migrate
from relaydeck.store.open_store import open_store_at
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.postgres_connection import PostgresConnection, connect, has_connect_timeout
from relaydeck.store.write_signal import WriteSignal
from tests.support.postgres import PostgresServer, write
from tests.support.postgres_faults import drop_what_arrives, hang_up, lost_on_the_way, silent
from tests.support.running import Running, clean_environment, eventually, run_command


def test_a_read_on_a_silent_connection_is_repeated_on_another_one_after_its_bound(database: PostgresDatabase) -> None:
    silenced = database.reader
    silenced.longest_wait = 0.2
    with silent(silenced):
        assert [row.one for row in database.read("SELECT 1 AS one")] == [1]
    assert silenced.closed


@pytest.mark.parametrize(("options", "said"), [("", False), ("?connect_timeout=15", True)])
def test_an_operator_may_say_how_long_a_connection_may_take(options: str, said: bool) -> None:
    assert has_connect_timeout(DatabaseUrl(f"postgresql://relaydeck@db.example.com/relaydeck{options}")) == said


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


def test_a_write_of_staged_rows_fails_when_their_session_has_ended(
    database: PostgresDatabase, postgres: PostgresServer
) -> None:
    migrate(database)
    with database.staging() as stage:
        stage("networks", ("name",), [("dev",)])
        hang_up(database.writer, postgres)
        with pytest.raises(StoreTrouble, match="the staged rows was lost"), database.transaction():
            raise AssertionError("there are no rows to write")
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


@pytest.mark.prove  # some kernels let only root attach the filter that drops what arrives
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
    """Seconds become one or two."""
    keepalives = {f"tcp_keepalives_{name}": "1" for name in ("idle", "interval", "count")}
    writer = postgres_connection._WRITER_LIMITS | keepalives | {"tcp_user_timeout": "1000", "statement_timeout": "60s"}
    monkeypatch.setattr(postgres_connection, "_WRITER_LIMITS", writer)
    monkeypatch.setattr(postgres_connection, "_CHECK_CLIENT", {"client_connection_check_interval": "100ms"})


def test_the_server_ends_an_idle_transaction_that_writes_and_no_other(database: PostgresDatabase) -> None:
    setting = "SELECT current_setting('idle_in_transaction_session_timeout') AS found"
    assert [row.found for row in database.write_unversioned(setting)] == ["4s"]
    with database.transaction() as transaction:
        assert [row.found for row in transaction.all(setting)] == ["4s"]
    with database.migration() as execute:
        assert execute(setting).fetchall() == [("1min",)]
    with database.snapshot():
        assert [row.found for row in database.read(setting)] == ["0"]


@dataclass
class Waits:
    """What a database reports about those that its writes wait for."""

    seen: list[tuple[LockHolder, bool]] = field(default_factory=list)

    def __call__(self, holder: LockHolder, ended: bool) -> None:
        self.seen.append((holder, ended))

    @property
    def pids(self) -> set[int]:
        return {holder.pid for holder, _ in self.seen}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch, database: PostgresDatabase) -> Waits:
    """Seconds become tenths of them. The server ends nothing by itself."""
    short = postgres_connection._WRITER_LIMITS | {"lock_timeout": "200ms", "idle_in_transaction_session_timeout": "0"}
    monkeypatch.setattr(postgres_connection, "_WRITER_LIMITS", short)
    monkeypatch.setattr(postgres, "END_SILENT", END_SILENT.replace("'4 seconds'", "'0.3 seconds'"))
    database.on_lock_wait = waits = Waits()
    return waits


def test_whoever_waits_ends_the_session_of_a_silent_client_of_ours(
    database: PostgresDatabase, url: DatabaseUrl, tmp_path: Path, waits: Waits
) -> None:
    """One that is frozen in a transaction, and learns of it with its next statement."""
    with closing(PostgresDatabase(url, WriteSignal(tmp_path / "other"))) as frozen:
        with pytest.raises(StoreTrouble, match="terminating connection"), frozen.transaction() as transaction:
            transaction.execute("DELETE FROM removals")
            pid = frozen.writer.info.backend_pid
            assert write(database) == 1
            transaction.execute("DELETE FROM removals")
        assert write(frozen) == 2
    assert waits.pids == {pid}
    assert [ended for _, ended in waits.seen] == [False] * (len(waits.seen) - 1) + [True]


def test_nor_does_a_client_that_falls_silent_in_the_middle_of_its_rows_stop_others(
    database: PostgresDatabase, url: DatabaseUrl, waits: Waits
) -> None:
    """The server's own limits do not apply while it waits for the rest of them."""
    with closing(connect(url, writes=True)) as frozen:
        frozen.execute("BEGIN")
        frozen.execute("SELECT 1 FROM clock FOR UPDATE")
        frozen.pgconn.exec_(b"COPY removals FROM STDIN")
        assert write(database) == 1
    assert [(holder.activity, ended) for holder, ended in waits.seen][-1] == ("waits for its client", True)


def test_a_client_that_sends_rows_is_not_silent(database: PostgresDatabase, url: DatabaseUrl, waits: Waits) -> None:
    """Between them the server waits for it, in a statement that began long ago."""
    with closing(connect(url, writes=True)) as working, ThreadPoolExecutor(1) as thread:
        working.execute("BEGIN")
        working.execute("SELECT 1 FROM clock FOR UPDATE")
        with working.cursor() as cursor, cursor.copy("COPY removals (revision, resource, seq) FROM STDIN") as copy:
            written = thread.submit(write, database)
            while len(waits.seen) < 5 and not written.done():
                copy.write(b"1\tx\t1\n" * 3_000)  # the driver collects fewer
                time.sleep(0.05)
        working.execute("COMMIT")
        assert written.result() == 1
    assert not any(ended for _, ended in waits.seen)


@pytest.mark.parametrize("name", ["psql", "relaydeck read 1@host", "relaydeck migrate 1@host"])
def test_a_session_that_is_no_write_of_ours_is_named_and_left_alone(
    database: PostgresDatabase, url: DatabaseUrl, waits: Waits, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(postgres, "_LONGEST_LOCK_WAIT", 1.0)
    with closing(psycopg.connect(url.reveal(), application_name=name)) as other:
        other.execute("SELECT 1 FROM clock FOR UPDATE")
        with pytest.raises(StoreTrouble, match="another transaction holds the lock that every write needs"):
            write(database)
        other.commit()
        assert waits.pids == {other.info.backend_pid}
    assert not any(ended for _, ended in waits.seen)


def test_a_session_of_ours_that_works_is_left_alone(
    database: PostgresDatabase, url: DatabaseUrl, tmp_path: Path, waits: Waits
) -> None:
    with closing(PostgresDatabase(url, WriteSignal(tmp_path / "other"))) as working:
        with ThreadPoolExecutor(1) as thread, working.transaction() as transaction:
            written = thread.submit(write, database)
            eventually(lambda: bool(transaction.execute("SELECT pg_sleep(0.25)") and waits.seen))
        assert written.result() == 2
    assert not any(ended for _, ended in waits.seen)


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
from relaydeck.store import postgres, postgres_connection
postgres._LONGEST_BEGIN = 1.0
postgres_connection._WRITER_LIMITS["lock_timeout"] = "7s"
main()
"""


def test_a_command_with_a_silent_connection_ends_with_code_1(
    home: Path, database: PostgresDatabase, url: DatabaseUrl
) -> None:
    run_command(home, "token", "list")
    command = [sys.executable, "-c", _IMPATIENT, "token", "create", "late"]
    with closing(database.open_reader()) as reader, closing(psycopg.connect(url.reveal())) as holding:
        holding.execute("SELECT 1 FROM clock FOR UPDATE")  # the command waits for its end
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
