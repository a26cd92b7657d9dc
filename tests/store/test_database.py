"""What a database must do for us, asked of each one we run on."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from relaydeck.errors import StoreError, StoreMisuse, StoreRefusal, StoreTrouble
from relaydeck.notifications import events
from relaydeck.notifications.model import EventKind
from relaydeck.store.database import Database, Transaction
from relaydeck.store.migrate import migrate
from relaydeck.store.sqlite import SqliteDatabase
from relaydeck.store.write_signal import WriteSignal
from tests.store.conftest import Connect
from tests.support.running import eventually
from tests.support.seeding import opened
from tests.support.statements import column


class Undone(Exception):
    pass


def add_network(transaction: Transaction, name: str, tokens: str = "[]", sealed: bytes | None = None) -> None:
    transaction.execute(
        "INSERT INTO networks (name, network_type, chain_id, native_symbol, sealed_rpc_urls, fee_tokens, origin,"
        " created_at, revision) VALUES (:name, 'evm', 1, 'ETH', :sealed, :tokens, 'api', 0, :revision)",
        {"name": name, "tokens": tokens, "sealed": sealed, "revision": transaction.revision},
    )


def names(database: Database) -> list[str]:
    return column(database, "SELECT name FROM networks ORDER BY seq")


def revision(database: Database) -> int:
    found: int = database.read("SELECT revision FROM clock")[0].revision
    return found


def test_each_transaction_takes_the_next_revision(database: Database) -> None:
    taken = []
    for _ in range(3):
        with database.transaction() as transaction:
            taken.append(transaction.revision)
    assert (taken, revision(database)) == ([1, 2, 3], 3)


def test_columns_are_read_by_name(database: Database) -> None:
    sql = "SELECT name, chain_id + 1 AS next_id FROM networks WHERE name = :name"
    with database.transaction() as transaction:
        add_network(transaction, "a")
        inside = [transaction.one(sql, {"name": "a"}), *transaction.all(sql, {"name": "a"})]
    with database.snapshot():
        streamed = list(database.stream("SELECT name, chain_id + 1 AS next_id FROM networks"))
    for row in (*inside, *database.read(sql, {"name": "a"}), *streamed):
        assert row is not None
        assert (row.name, row.next_id, row) == ("a", 2, ("a", 2))


def test_a_row_is_encoded_like_the_tuple_of_its_values(database: Database) -> None:
    (row,) = database.read("SELECT revision, 'text' AS kind FROM clock")
    assert msgspec.json.encode(row) == b'[0,"text"]'


def test_a_column_is_read_alone(database: Database) -> None:
    with database.transaction() as transaction:
        add_network(transaction, "a")
        add_network(transaction, "b")
    assert column(database, "SELECT name, seq FROM networks ORDER BY seq DESC") == ["b", "a"]


def test_what_was_committed_is_there_for_another_process(connect: Connect) -> None:
    one, other = connect(), connect()
    with one.transaction() as transaction:
        add_network(transaction, "a")
    assert names(other) == ["a"]


def test_leaving_by_an_error_changes_nothing_and_takes_no_revision(database: Database) -> None:
    with pytest.raises(Undone), database.transaction() as transaction:
        add_network(transaction, "a")
        raise Undone
    assert (names(database), revision(database)) == ([], 0)


def test_a_commit_sends_the_signal_and_a_rolled_back_transaction_does_not(database: Database) -> None:
    before = database.write_signal.last()
    with pytest.raises(Undone), database.transaction():
        raise Undone
    assert database.write_signal.last() == before
    with database.transaction():
        pass
    assert database.write_signal.last() != before


def test_a_read_cannot_write(database: Database) -> None:
    with database.transaction() as transaction:
        add_network(transaction, "a")
    with pytest.raises(StoreTrouble):
        database.read("UPDATE networks SET chain_id = 2")
    assert column(database, "SELECT chain_id FROM networks") == [1]


def test_a_failed_step_is_undone_alone(database: Database) -> None:
    with database.transaction() as transaction:
        add_network(transaction, "before")
        with pytest.raises(StoreRefusal), transaction.step():
            add_network(transaction, "inside")
            add_network(transaction, "before")
        add_network(transaction, "after")
    assert names(database) == ["before", "after"]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO clock (only_row, revision) VALUES (1, 0)",
        "INSERT INTO clock (only_row, revision) VALUES (2, 0)",
        "INSERT INTO attempts (delivery, started_at, duration, problem, answer) VALUES (5, 0, 0, '', '')",
        "UPDATE clock SET revision = NULL",
    ],
    ids=["unique", "check", "reference", "null"],
)
def test_a_row_that_breaks_a_rule_is_refused(database: Database, sql: str) -> None:
    with pytest.raises(StoreRefusal), database.transaction() as transaction:
        transaction.execute(sql)


def test_a_refusal_quotes_nothing_of_the_row(database: Database) -> None:
    with pytest.raises(StoreRefusal) as refused, database.transaction() as transaction:
        add_network(transaction, "planted-name")
        add_network(transaction, "planted-name")
    assert "planted-name" not in f"{refused.value!r} {refused.value.__cause__!r}"


def test_a_statement_the_database_does_not_understand_is_trouble(database: Database) -> None:
    with pytest.raises(StoreTrouble), database.transaction() as transaction:
        transaction.execute("INSERT INTO nowhere VALUES (1)")
    with pytest.raises(StoreTrouble):
        database.read("SELECT * FROM nowhere")
    with database.transaction() as transaction:
        add_network(transaction, "after")
    assert names(database) == ["after"]


@pytest.mark.parametrize("amount", [0, 1, 2, 7, 8, 9, 64, 65, 1000])
def test_many_rows_are_inserted_in_their_order(database: Database, amount: int) -> None:
    columns = ("id", "type", "open_config", "sealed_config", "origin", "created_at", "revision")
    rows = [(f"s{n}", "plain", "{}", b"", "api", n, 1) for n in range(amount)]
    with database.transaction() as transaction:
        transaction.insert("signers", columns, rows)
    assert database.read("SELECT id, created_at FROM signers ORDER BY seq") == [(row[0], row[5]) for row in rows]


def test_which_of_many_values_are_present(database: Database) -> None:
    with database.transaction() as transaction:
        for name in ("a", "it's", "ü", 'q"'):
            add_network(transaction, name)
        assert transaction.present("networks", "name", ["a", "it's", "ü", 'q"', "b", "A"]) == {"a", "it's", "ü", 'q"'}
        assert transaction.present("networks", "name", []) == set()


@pytest.mark.parametrize(
    "text", ["", "50%", "%s %(name)s", ":name ::text", 'it\'s "x"', "é💥\n\t\u2028", "x" * 100_000]
)
def test_any_text_comes_back_as_it_was(database: Database, text: str) -> None:
    with database.transaction() as transaction:
        add_network(transaction, "a", tokens=text)
    assert database.read("SELECT fee_tokens FROM networks WHERE fee_tokens = :text", {"text": text}) == [(text,)]


@pytest.mark.parametrize("sealed", [None, b"", bytes(range(256)), b"\0" * 70_000])
def test_any_bytes_come_back_as_they_were(database: Database, sealed: bytes | None) -> None:
    with database.transaction() as transaction:
        add_network(transaction, "a", sealed=sealed)
    ((found,),) = database.read("SELECT sealed_rpc_urls FROM networks")
    assert (found, type(found)) == (sealed, type(sealed))


def test_a_literal_in_the_sql_is_left_as_it_is(database: Database) -> None:
    assert database.read("SELECT ':a 100% ''x'' ::b', :value || 'c'", {"value": "d"}) == [(":a 100% 'x' ::b", "dc")]


@pytest.mark.parametrize("number", [0, -1, 2**15, 2**31, 2**63 - 1])
def test_every_64_bit_number_comes_back_as_it_was(database: Database, number: int) -> None:
    with database.transaction() as transaction:
        transaction.execute("UPDATE clock SET removals_pruned_to = :number", {"number": number})
    assert database.read("SELECT removals_pruned_to FROM clock") == [(number,)]


def test_names_are_compared_byte_by_byte(database: Database) -> None:
    with database.transaction() as transaction:
        for name in ("b", "A", "a", "B", "Ä"):
            add_network(transaction, name)
    rows = database.read("SELECT name, lower(name) FROM networks ORDER BY name")
    assert rows == [("A", "a"), ("B", "b"), ("a", "a"), ("b", "b"), ("Ä", "Ä")]


def test_a_snapshot_sees_one_moment(connect: Connect) -> None:
    ours, theirs = connect(), connect()
    with ours.snapshot():
        assert names(ours) == []
        with theirs.transaction() as transaction:
            add_network(transaction, "a")
        assert names(ours) == []
    assert names(ours) == ["a"]


def test_a_snapshot_that_an_error_ends_is_over(database: Database) -> None:
    with pytest.raises(StoreError), database.snapshot():
        database.read("SELECT * FROM nowhere")
    with database.transaction() as transaction:
        add_network(transaction, "a")
    assert names(database) == ["a"]


def test_a_snapshot_that_sqlite_fails_to_end_does_not_prevent_the_next_one(tmp_path: Path) -> None:
    def deny_commit(action: int, operation: str | None, *_: object) -> int:
        return (
            sqlite3.SQLITE_DENY if (action, operation) == (sqlite3.SQLITE_TRANSACTION, "COMMIT") else sqlite3.SQLITE_OK
        )

    with closing(SqliteDatabase(tmp_path / "relaydeck.db", WriteSignal(tmp_path / "write-signal"))) as database:
        with pytest.raises(StoreTrouble, match="not authorized"), database.snapshot():
            database.reader.set_authorizer(deny_commit)
        with database.snapshot():
            assert column(database, "SELECT 1") == [1]


def test_rows_are_streamed_several_streams_at_once(database: Database) -> None:
    with database.transaction() as transaction:
        transaction.insert("removals", ("revision", "resource", "seq"), [(1, "x", n) for n in range(5000)])
    with database.snapshot():
        sql = "SELECT seq FROM removals ORDER BY seq"
        pairs = list(zip(database.stream(sql), database.stream(sql), strict=True))
    assert pairs == [((n,), (n,)) for n in range(5000)]


def test_writers_wait_for_each_other_and_readers_see_them_in_order(connect: Connect) -> None:
    """Whoever sees a row sees every row of a smaller revision: nothing becomes visible out of order."""
    databases, each = [connect() for _ in range(3)], 30

    def write(database: Database) -> None:
        for _ in range(each):
            with database.transaction() as transaction:
                transaction.execute(
                    "INSERT INTO removals (revision, resource, seq) VALUES (:r, 'x', 0)", {"r": transaction.revision}
                )

    threads = [threading.Thread(target=write, args=[database]) for database in databases]
    for thread in threads:
        thread.start()
    watching, seen = connect(), [(0, 0)]
    while seen[-1] != (3 * each, 3 * each) and any(thread.is_alive() for thread in threads):
        seen += watching.read("SELECT coalesce(max(revision), 0), count(*) FROM removals")
    for thread in threads:
        thread.join()
    assert [pair for pair in seen if pair[0] != pair[1]] == []
    assert seen == sorted(seen)
    assert watching.read("SELECT count(*), max(revision) FROM removals") == [(3 * each, 3 * each)]


def test_a_closed_database_opens_again_by_itself(database: Database) -> None:
    database.close()
    with database.transaction() as transaction:
        add_network(transaction, "a")
    assert names(database) == ["a"]


def record(transaction: Transaction) -> int:
    return events.record(transaction, EventKind.NOTIFICATION_TEST, {}, notification_id=None, now=0)


def test_event_numbers_have_no_gap_where_something_was_undone(home: Path) -> None:
    """A receiver takes a gap for an event it missed."""
    with opened(home) as store:
        with store.database.transaction() as transaction:
            assert record(transaction) == 1
            with pytest.raises(Undone), transaction.step():
                assert record(transaction) == 2
                raise Undone
            assert record(transaction) == 2
        with pytest.raises(Undone), store.database.transaction() as transaction:
            assert record(transaction) == 3
            raise Undone
        with store.database.transaction() as transaction:
            assert record(transaction) == 3
        assert [event.sequence for event in events.list_events(store.database.read)] == [1, 2, 3]


def test_a_statement_that_the_database_does_not_understand_is_a_misuse(database: Database) -> None:
    with pytest.raises(StoreMisuse):
        database.read("SELECT nothing_like_this FROM networks")


def test_a_stored_text_that_is_no_text_is_not_quoted(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "texts.db", WriteSignal(tmp_path / "write-signal"))
    with pytest.raises(StoreTrouble) as trouble:
        database.read("SELECT CAST(x'736563726574ff' AS text) AS stored")
    database.close()
    assert str(trouble.value) == "a stored text is not UTF-8"


def test_the_holder_of_the_write_lock_is_named_while_it_holds_it(connect: Connect) -> None:
    holding, other = connect(), connect()
    assert other.write_lock_holder() is None
    with holding.transaction():
        found = other.write_lock_holder()
    assert found is not None
    if holding.remote:
        assert found.replica == f"process {os.getpid()} on {socket.gethostname()}"
        assert (found.activity, found.address, found.kind) == ("idle", "127.0.0.1", "session")
        assert found.since is not None
    else:
        assert (found.pid, found.activity, found.kind) == (os.getpid(), "has the file locked", "process")
    assert other.write_lock_holder() is None


def test_a_tried_write_reaches_the_disk_and_is_nothing_to_follow(database: Database, home: Path) -> None:
    def place() -> tuple[object, ...]:
        """Of the log that every change of the database is written to."""
        if database.remote:
            return tuple(database.read("SELECT pg_current_wal_lsn() AS place")[0])
        return ((home / "relaydeck.db-wal").stat().st_size,)

    with database.transaction():
        pass
    before, written = (revision(database), database.write_signal.last()), place()
    database.try_write()
    assert ((revision(database), database.write_signal.last()), place() == written) == (before, False)


def test_a_tried_write_fails_while_another_one_has_the_lock(connect: Connect) -> None:
    holding, other = connect(), connect()
    with holding.transaction() as transaction:
        with pytest.raises(StoreTrouble) as trouble:
            other.try_write()
        add_network(transaction, "kept")
    other.try_write()
    assert (trouble.value.cause, names(other), revision(other)) == ("lock_held", ["kept"], 1)


_HOLDING = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[tuple[SqliteDatabase, "subprocess.Popen[bytes]"]]:
    """A database that a stopped process has locked."""
    path = tmp_path / "relaydeck.db"
    with closing(SqliteDatabase(path, WriteSignal(tmp_path / "signal"))) as database:
        migrate(database)
        process = subprocess.Popen([sys.executable, "-c", _HOLDING, str(path)])
        try:
            eventually(lambda: "stopped" in str(database.write_lock_holder()))
            yield database, process
        finally:
            process.kill()
            process.wait()


def test_a_process_that_is_stopped_with_the_file_locked_is_named_and_left_alone(
    stopped: tuple[SqliteDatabase, "subprocess.Popen[bytes]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relaydeck.store.sqlite._BUSY_TIMEOUT_MS", 10)
    database, process = stopped
    waits: list[tuple[int, str, bool]] = []
    database.on_lock_wait = lambda holder, ended: waits.append((holder.pid, holder.activity, ended))
    with pytest.raises(StoreTrouble, match="locked"), database.transaction():
        pass
    assert waits == [(process.pid, "is stopped, with the file locked", False)] * 3
    assert process.poll() is None


def test_a_worker_of_the_same_service_is_ended_instead(
    stopped: tuple[SqliteDatabase, "subprocess.Popen[bytes]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relaydeck.store.sqlite._BUSY_TIMEOUT_MS", 1_000)
    monkeypatch.setattr(os, "getppid", os.getpid)  # the process has this one as its parent
    database, process = stopped
    waits: list[tuple[int, bool]] = []
    database.on_lock_wait = lambda holder, ended: waits.append((holder.pid, ended))
    with database.transaction() as transaction:
        assert transaction.revision == 1
    assert (waits, process.wait(60)) == ([(process.pid, True)], -signal.SIGKILL)


_REOPENING = """
import os, sys
from pathlib import Path
from relaydeck.errors import StoreError
from relaydeck.store.sqlite import SqliteDatabase
from relaydeck.store.write_signal import WriteSignal
path = Path(sys.argv[1])
database = SqliteDatabase(path, WriteSignal(path.with_name("signal")))
def transact():
    with database.staging() as stage, database.transaction() as transaction:
        return transaction.revision
writes = database.try_write, transact
database.read("SELECT 1")
for write in writes * 20:
    try:
        write()
        print("written")
    except StoreError as error:
        cause = error.cause
files = len(os.listdir("/proc/self/fd"))
path.chmod(0o600)
database.try_write()
print(cause, files < 20, transact())
"""


def test_a_file_that_was_read_only_when_it_was_opened_is_written_after_its_permissions_are_corrected(
    tmp_path: Path,
) -> None:
    path = tmp_path / "relaydeck.db"
    limited = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []  # root may write every file
    with closing(SqliteDatabase(path, WriteSignal(tmp_path / "signal"))) as database:
        migrate(database)
        path.chmod(0o400)
        command = [*limited, sys.executable, "-c", _REOPENING, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.stdout, done.stderr) == ("read_only True 1\n", "")
        assert revision(database) == 1
