"""What only a database server brings: connections that break, passwords, and processes on other machines."""

import ctypes
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import OperatorError, StoreError, StoreTrouble, StoreUnconfirmed, StoreUnreachable
from relaydeck.settings import Settings
from relaydeck.store import postgres_connection
from relaydeck.store.migrate import migrate, newest_version
from relaydeck.store.open_store import open_store_at
from relaydeck.store.postgres import OPENING_LOCK, PostgresDatabase
from relaydeck.store.postgres_connection import CHANNEL, PostgresConnection, connect
from relaydeck.store.write_signal import WriteSignal
from tests.places import place_of
from tests.pooler import TransactionPooler
from tests.postgres import PostgresServer
from tests.running import COMMAND, Running, clean_environment, free_port, run_command
from tests.seeding import fill, issue

PASSWORD = "planted-password-4711"


@pytest.fixture
def home(tmp_path: Path, lend: Callable[[Path, str], Path]) -> Path:
    return lend(tmp_path / "home", "postgresql")


@pytest.fixture
def url(home: Path) -> DatabaseUrl:
    where = place_of(home)
    assert isinstance(where, DatabaseUrl)
    return where


@pytest.fixture
def database(url: DatabaseUrl, tmp_path: Path) -> Iterator[PostgresDatabase]:
    with closing(PostgresDatabase(url, WriteSignal(tmp_path / "write-signal"))) as database:
        yield database


def write(database: PostgresDatabase) -> int:
    with database.transaction() as transaction:
        return transaction.revision


def hang_up(connection: psycopg.Connection, postgres: PostgresServer) -> None:
    """As a server does that is restarted."""
    postgres.ask(f"SELECT pg_terminate_backend({connection.info.backend_pid}, 5000)")


@contextmanager
def silent(connection: psycopg.Connection) -> Iterator[None]:
    """The server's process of this connection stops: it answers nothing, and its limits do not apply any more."""
    os.kill(connection.info.backend_pid, signal.SIGSTOP)
    pid = connection.info.backend_pid
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


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


@contextmanager
def lost_on_the_way(connection: psycopg.Connection) -> Iterator[None]:
    """Nothing passes between client and server any more, and neither of them learns that."""
    kept, (ours, theirs) = os.dup(connection.fileno()), socket.socketpair()
    os.dup2(ours.fileno(), connection.fileno())
    try:
        with ours, theirs:
            yield
    finally:
        os.close(kept)


def test_the_transaction_of_a_connection_that_the_network_lost_delays_no_other_writer(
    database: PostgresDatabase,
) -> None:
    migrate(database)
    with ExitStack() as lost:
        with pytest.raises(StoreTrouble, match="does not answer"), database.transaction() as transaction:
            lost.enter_context(lost_on_the_way(database.writer))
            with database.writer.waiting(0.2):
                transaction.execute("SELECT 1")
        assert write(database) > 0


def test_nor_does_it_when_the_next_connection_is_lost_as_well(
    database: PostgresDatabase, url: DatabaseUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(database)
    with ExitStack() as lost:
        with pytest.raises(StoreTrouble, match="does not answer"), database.transaction() as transaction:
            lost.enter_context(lost_on_the_way(database.writer))
            with database.writer.waiting(0.2):
                transaction.execute("SELECT 1")

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


def test_a_start_that_waits_too_long_names_the_session_that_it_waits_for(
    home: Path, url: DatabaseUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relaydeck.store.postgres.LONGEST_MIGRATION", 0.2)
    with closing(connect(url)) as holder, pytest.raises(OperatorError) as refused:
        holder.execute("SELECT pg_advisory_lock(%s)", [OPENING_LOCK])
        pid = holder.info.backend_pid
        open_store_at(home, url, home / "master.key")
    assert str(refused.value.problem) == (
        f"waited 0.2 seconds for another process that opens, migrates or fills the database {url}"
    )
    assert refused.value.remedy == (
        f"Wait until it is ready. If it is gone, end its session: SELECT pg_terminate_backend({pid})"
    )


def drop_what_arrives(connection: psycopg.Connection) -> None:
    """The machine of the client is gone, as far as the server can see: nothing is acknowledged any more."""
    refuse_all = struct.pack("HBBI", 0x06, 0, 0, 0)  # a program of one instruction: keep no byte of a packet
    program = ctypes.create_string_buffer(refuse_all)
    attach_filter = 26  # SO_ATTACH_FILTER
    with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        given = struct.pack("@HP", 1, ctypes.addressof(program))
        duplicate.setsockopt(socket.SOL_SOCKET, attach_filter, given)


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


def test_each_commit_notifies_of_its_revision_and_nothing_else_does(
    database: PostgresDatabase, url: DatabaseUrl
) -> None:
    with closing(psycopg.connect(url.reveal(), autocommit=True)) as listening:
        listening.execute(f"LISTEN {CHANNEL}")
        with pytest.raises(RuntimeError), database.transaction():
            raise RuntimeError
        write(database)
        write(database)
        heard = [each.payload for each in listening.notifies(timeout=60, stop_after=2)]
    assert heard == ["1", "2"]


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


def test_a_statement_that_failed_unnoticed_is_not_committed_as_if_it_had_not(database: PostgresDatabase) -> None:
    with pytest.raises(StoreTrouble), database.transaction() as transaction, suppress(StoreError):
        transaction.execute("SELECT * FROM nowhere")
    assert database.read("SELECT revision FROM clock") == [(0,)]


def test_a_writer_that_is_kept_waiting_gives_up_with_trouble(url: DatabaseUrl, tmp_path: Path) -> None:
    write_signal = WriteSignal(tmp_path / "write-signal")
    hasty = DatabaseUrl(f"{url.reveal()}?options=-c%20lock_timeout%3D50ms")
    with (
        closing(PostgresDatabase(url, write_signal)) as first,
        closing(PostgresDatabase(hasty, write_signal)) as second,
    ):
        with first.transaction(), pytest.raises(StoreTrouble, match="lock timeout"):
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


def test_a_database_in_another_encoding_is_refused(postgres: PostgresServer, tmp_path: Path) -> None:
    postgres.ask("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    home = tmp_path / "home"
    with pytest.raises(OperatorError) as refused:
        open_store_at(home, postgres.url("latin"), home / "master.key")
    assert refused.value.problem == (
        f"the database postgresql://127.0.0.1:{postgres.port}/latin has the encoding LATIN1, but UTF8 is required"
    )


def test_five_first_starts_at_once_migrate_once_and_agree_on_one_data_key(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url, home = postgres.url(postgres.fresh()), tmp_path / "home"
    environment = clean_environment(home, database_url=url.reveal())
    starts = [
        subprocess.Popen([*COMMAND, "token", "create", f"t{n}"], env=environment, stdout=subprocess.DEVNULL)
        for n in range(5)
    ]
    assert [start.wait(60) for start in starts] == [0] * 5
    name = str(url).rpartition("/")[2]
    assert postgres.ask("SELECT count(*), max(version) FROM schema_versions", name) == [(newest_version(),) * 2]
    assert postgres.ask("SELECT count(*) FROM data_keys", name) == [(1,)]


def test_a_second_home_does_not_make_a_master_key_of_its_own(home: Path, url: DatabaseUrl, tmp_path: Path) -> None:
    issue(home)
    other = tmp_path / "other"
    done = run_command(other, "token", "list", database_url=url.reveal())
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"relaydeck: the master key file {other / 'master.key'} is missing\n"
        "Restore it from your backup: without it the sealed secrets of this database cannot be opened.\n",
    )
    assert not other.exists()
    other.mkdir()
    (other / "master.key").write_text((home / "master.key").read_text())
    assert run_command(other, "token", "list", database_url=url.reveal()).returncode == 0


def planted(port: int, rest: str = "/name") -> str:
    return f"postgresql://relaydeck:{PASSWORD}@127.0.0.1:{port}{rest}"


@pytest.mark.parametrize("command", [("token", "list"), ("doctor",), ("serve", "--port", "1")])
def test_a_password_is_in_no_message(postgres: PostgresServer, tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "home").mkdir()
    for port in (postgres.port, free_port()):
        done = run_command(tmp_path / "home", *command, database_url=planted(port))
        assert done.returncode == 1
        assert f"postgresql://127.0.0.1:{port}/name" in done.stdout + done.stderr
        assert PASSWORD not in done.stdout + done.stderr


@pytest.mark.parametrize("url", [planted(1, "/x?nonsense=1"), planted(1).replace("4711", "%zz"), planted(1, "x/y")])
def test_nor_in_what_is_said_of_an_address_that_cannot_be_read(tmp_path: Path, url: str) -> None:
    done = run_command(tmp_path / "home", "token", "list", database_url=url)
    assert done.returncode == 1
    assert "RELAYDECK_DATABASE_URL" in done.stderr
    assert "planted" not in done.stderr


def test_nor_in_the_settings_as_they_are_printed() -> None:
    settings = Settings(database_url=DatabaseUrl(planted(5432)))
    assert PASSWORD not in f"{settings!r} {settings.database_url} {settings.database!r}"
    assert str(settings.database_url) == "postgresql://127.0.0.1:5432/name"


def test_a_server_that_is_away_is_told_as_such(tmp_path: Path) -> None:
    port = free_port()
    with pytest.raises(StoreUnreachable, match=re.escape(f"the database postgresql://127.0.0.1:{port}/name cannot")):
        PostgresDatabase(DatabaseUrl(planted(port)), WriteSignal(tmp_path / "write-signal")).read("SELECT 1")


def test_a_home_on_sqlite_loads_no_driver_of_a_server(tmp_path: Path) -> None:
    asked = (
        "import sys; from pathlib import Path; import relaydeck.app;"
        "from relaydeck.store.open_store import open_store_at;"
        f"home = Path({str(tmp_path)!r}); open_store_at(home, home / 'db', home / 'master.key').close();"
        "print([name for name in sys.modules if name.startswith('psycopg')])"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


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


def test_the_commands_work_as_they_do_on_sqlite(home: Path, tmp_path: Path) -> None:
    fill(home)
    fill(tmp_path / "file")
    for command in [("export",), ("signer", "list", "--json"), ("key", "rotate"), ("audit", "verify")]:
        here, there = run_command(home, *command), run_command(tmp_path / "file", *command)
        assert (here.returncode, here.stderr) == (there.returncode, there.stderr) == (0, "")
        assert _timeless(here.stdout) == _timeless(there.stdout)


def _timeless(text: str) -> str:
    return re.sub(r"head .*", "head", text)


def test_a_pooler_in_transaction_mode_is_refused(postgres: PostgresServer, url: DatabaseUrl, tmp_path: Path) -> None:
    with closing(TransactionPooler(postgres.port)) as pooler:
        pooled = DatabaseUrl(url.reveal().replace(f":{postgres.port}/", f":{pooler.port}/"))
        with pytest.raises(OperatorError) as refusal:
            open_store_at(tmp_path / "pooled", pooled, tmp_path / "pooled" / "master.key")
    assert refusal.value.problem.endswith("is behind a pooler in transaction mode")
    assert "session mode" in refusal.value.remedy


def test_a_start_waits_for_another_one_that_takes_longer_than_a_lock_may(
    url: DatabaseUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connection, "_LIMITS", "-c statement_timeout=200ms -c lock_timeout=50ms")
    first, second = (PostgresDatabase(url, WriteSignal(tmp_path / f"signal-{number}")) for number in (1, 2))
    opened = threading.Event()

    def open_second() -> None:
        with second.opening():
            opened.set()

    waiting = threading.Thread(target=open_second)
    with closing(first), closing(second):
        with first.opening():
            waiting.start()
            assert not opened.wait(0.5)  # longer than both limits: it waits and does not fail
        assert opened.wait(60)
        waiting.join()


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
