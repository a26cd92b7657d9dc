"""Transactions that write many rows before they lock the revision, on PostgreSQL: nobody waits for them for long."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import StoreConflict
from relaydeck.store import postgres_transaction
from relaydeck.store.database import ReadRows, Row, Transaction, Values
from relaydeck.store.follower import newest_revisions_query
from relaydeck.store.listing import Encoded, Listing
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.removals import removed_since
from relaydeck.store.row_sets import RowSet
from relaydeck.store.schedule import read_row_changes
from relaydeck.store.write_signal import WriteSignal
from tests.places import place_of

LEASES = ("name", "holder", "fence", "expires_at")
WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"


class Others(threading.Thread):
    """Another process, which takes a lease in a transaction of its own."""

    def __init__(self, database: PostgresDatabase, name: str) -> None:
        super().__init__()
        self._database = database
        self._name = name
        self.revision = 0

    def run(self, before: Callable[[], object] = bool) -> None:
        # The server ends a deadlock after a second, with either of the two: in these tests never.
        self._database.writer.execute("SET deadlock_timeout = '60s'")
        with self._database.transaction() as transaction:
            before()
            take(transaction, "others", self._name)
        self.revision = transaction.revision

    def start_and_wait_for_us(self) -> None:
        """Return when it waits for a row of ours, with the revision locked."""
        self.start()
        wait_for_a_wait(self._database)


def wait_for_a_wait(database: PostgresDatabase) -> None:
    deadline = time.monotonic() + 60
    while database.read(WAITING)[0][0] == 0:
        assert time.monotonic() < deadline


def take(transaction: Transaction, holder: str, *names: str) -> None:
    transaction.insert("leases", LEASES, [(name, holder, 1, 0) for name in names])


@pytest.fixture
def connect(tmp_path: Path, lend: Callable[[Path, str], Path]) -> Iterator[Callable[[], PostgresDatabase]]:
    where = place_of(lend(tmp_path / "home", "postgresql"))
    assert isinstance(where, DatabaseUrl)
    opened: list[PostgresDatabase] = []

    def connecting() -> PostgresDatabase:
        opened.append(PostgresDatabase(where, WriteSignal(tmp_path / "write-signal")))
        return opened[-1]

    yield connecting
    for database in opened:
        database.close()


@pytest.fixture
def database(connect: Callable[[], PostgresDatabase]) -> PostgresDatabase:
    return connect()


def holders(database: PostgresDatabase) -> dict[str, str]:
    return {row.name: row.holder for row in database.read("SELECT name, holder FROM leases")}


def revision(database: PostgresDatabase) -> int:
    found: int = database.read("SELECT revision FROM clock")[0].revision
    return found


def test_others_write_while_rows_are_written_early(
    database: PostgresDatabase, connect: Callable[[], PostgresDatabase]
) -> None:
    others = [Others(connect(), name) for name in ("a", "b")]

    def write_early(transaction: Transaction) -> None:
        take(transaction, "bulk", "c")
        for other in others:
            other.run()
        assert holders(connect()) == {"a": "others", "b": "others"}

    with database.bulk_transaction(write_early, 10) as transaction:
        take(transaction, "bulk", "d")
    assert [each.revision for each in others] == [1, 2]
    assert revision(database) == transaction.revision > 2
    assert holders(database) == {"a": "others", "b": "others", "c": "bulk", "d": "bulk"}
    with database.transaction() as following:
        assert following.revision == transaction.revision + 1


def find_newest(read: ReadRows) -> None:
    read(newest_revisions_query([]), {})


def find_removed(read: ReadRows) -> None:
    removed_since(read, "relayers", 0)


def find_scheduled(read: ReadRows) -> None:
    read_row_changes(read, "removals", 0, removed=False)


def find_listed(read: ReadRows) -> None:
    for whole in (True, False):
        Listing("removals", "resource", encode_nothing, None, whole=whole).fetch_changes(read, 0, removed=False)  # type: ignore[arg-type]


def encode_nothing(_row: Row) -> Encoded:
    return Encoded(b"")


@pytest.mark.parametrize("find", [find_newest, find_removed, find_scheduled, find_listed])
def test_a_query_for_new_rows_does_not_look_at_those_that_are_written_early(
    database: PostgresDatabase, connect: Callable[[], PostgresDatabase], find: Callable[[ReadRows], None]
) -> None:
    """Each process that follows the database makes them after each write."""
    following, rows = connect(), [(number, "relayers", number) for number in range(10, 5_010)]

    def read(sql: str, values: Values) -> list[Row]:
        (explained,) = following.read(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", values)
        plan = explained[0][0]["Plan"]
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 20
        return following.read(sql, values)

    def write_early(transaction: Transaction) -> None:
        transaction.insert("removals", ("revision", "resource", "seq"), rows)
        following.reader.execute("SET enable_seqscan = off")  # nobody has analysed this table
        find(read)

    with database.bulk_transaction(write_early, 10):
        pass


def test_another_write_that_waits_for_a_row_goes_first(
    database: PostgresDatabase, connect: Callable[[], PostgresDatabase]
) -> None:
    others = Others(connect(), "a")

    def write_early(transaction: Transaction) -> None:
        take(transaction, "bulk", "a")
        others.start_and_wait_for_us()
        take(transaction, "bulk", *map(str, range(300)))

    with (
        pytest.raises(StoreConflict, match="another write waits"),
        database.bulk_transaction(write_early, 10),
    ):
        raise AssertionError("the revision must not be locked")
    others.join()
    assert (holders(database), revision(database)) == ({"a": "others"}, others.revision)


def test_another_write_that_holds_the_revision_and_comes_to_need_a_row_goes_first(
    database: PostgresDatabase, connect: Callable[[], PostgresDatabase]
) -> None:
    """A deadlock, until the bulk transaction notices that the other one waits."""
    other, watching, holds = Others(connect(), "a"), connect(), threading.Event()

    def hold_until_the_bulk_waits() -> None:
        holds.set()
        wait_for_a_wait(watching)

    thread = threading.Thread(target=other.run, args=(hold_until_the_bulk_waits,))

    def write_early(transaction: Transaction) -> None:
        take(transaction, "bulk", "a")
        thread.start()
        assert holds.wait(60)

    with (
        pytest.raises(StoreConflict, match="another write waits"),
        database.bulk_transaction(write_early, 10),
    ):
        raise AssertionError("the revision must not be locked")
    thread.join()
    assert (holders(database), revision(database)) == ({"a": "others"}, other.revision)


def test_a_row_that_others_have_written_since(
    database: PostgresDatabase, connect: Callable[[], PostgresDatabase]
) -> None:
    Others(connect(), "a").run()
    with (
        pytest.raises(StoreConflict, match="duplicate key"),
        database.bulk_transaction(lambda early: take(early, "bulk", "a"), 10),
    ):
        raise AssertionError("the revision must not be locked")


def test_others_use_up_the_reserved_revisions(
    database: PostgresDatabase, connect: Callable[[], PostgresDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_transaction, "_REVISIONS_RESERVED", 1)
    others = Others(connect(), "a")
    with (
        pytest.raises(StoreConflict, match="revisions that were reserved"),
        database.bulk_transaction(lambda _: others.run(), 0),
    ):
        raise AssertionError("the revision must not be locked")
    assert revision(database) == others.revision == 1


def test_staged_rows_are_gone_with_their_block(database: PostgresDatabase) -> None:
    with database.staging() as stage:
        staged = stage("leases", RowSet(LEASES, [("a", "bulk", 1, 0), ("b", "bulk", 1, 0)]))
        with closing(database.open_reader()) as other:
            assert not other.read("SELECT 1 FROM leases")
        with database.transaction() as transaction:
            transaction.insert_all("leases", staged, {})
    assert holders(database) == {"a": "bulk", "b": "bulk"}
    assert not database.writer.execute("SELECT 1 FROM pg_class WHERE relname = 'staged_0'").fetchall()
