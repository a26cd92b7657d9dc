"""A copy has every table and every row, on either engine, and an unfinished copy is never opened."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from relaydeck.errors import OperatorError
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.copying.backup import BackupFile, write_backup
from relaydeck.store.copying.contents import LEFT_OUT, Content, DatabaseSource, copied_tables
from relaydeck.store.copying.copy import Loaded, fill, restore_into_scratch, scratch_database
from relaydeck.store.copying.mark import MARK, REVOKED, remove_mark, set_mark, unfinished_copy_of
from relaydeck.store.database import Database
from relaydeck.store.migrate import migrate, schema_version
from relaydeck.store.open_store import open_store_at
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.sqlite import SqliteDatabase
from relaydeck.store.vault import MasterKey
from relaydeck.store.write_signal import WriteSignal
from tests.store.test_upgrade import ROWS, insert
from tests.support.places import ENGINES
from tests.support.postgres import PostgresServer

Make = Callable[..., Database]
MASTER = MasterKey(bytes(32))

# Each with one row; the migrations fill the clock themselves.
COPIED = len({"clock", *(table for rows in ROWS.values() for table, _ in rows)} - {"leases"})


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Makes an empty database of an engine."""
    made: list[Database] = []

    def making(engine: str) -> Database:
        write_signal = WriteSignal(tmp_path / f"write-signal-{len(made)}")
        if engine == "postgresql":
            server: PostgresServer = request.getfixturevalue("postgres")
            made.append(PostgresDatabase(server.url(server.fresh()), write_signal))
        else:
            made.append(SqliteDatabase(tmp_path / f"{len(made)}.db", write_signal))
        return made[-1]

    yield making
    for database in made:
        database.close()


def filled(database: Database, version: int | None = None) -> Database:
    """A row in every table, as in the tests of upgrades, and a sequence number without its row."""
    migrate(database, to=version)
    for brought, rows in ROWS.items():
        for table, row in rows if brought <= (version or brought) else []:
            insert(database, table, row)
    with database.migration() as execute:
        execute("UPDATE clock SET revision = :revision", {"revision": 2**40})
        execute("INSERT INTO audit_keys (seq, name, sealed_key) VALUES (41, 'gone', :key)", {"key": b"\0"})
        database.set_counter(next(table for table in database.tables() if table.name == "audit_keys"), 41)
        execute("DELETE FROM audit_keys WHERE seq = 41")
    return database


def copy(source: Database, target: Database, origin: str = "here") -> Loaded:
    with source.snapshot():
        return fill(DatabaseSource(source), target, origin, ignored)


def ignored(rows: int) -> None: ...


def read(path: Path, file: BinaryIO) -> BackupFile:
    backup = BackupFile(path, file, ignored)
    backup.check_contents(ignored)
    return backup


def everything(database: Database) -> dict[str, list[Any]]:
    """Every table, asked for without the code under test."""
    names = ("clock", "schema_versions", *(table for rows in ROWS.values() for table, _ in rows))
    return {name: sorted(database.read(f"SELECT * FROM {name}")) for name in names}


def expected(source: Database, target: Database) -> dict[str, list[Any]]:
    return everything(source) | {"leases": [], "schema_versions": everything(target)["schema_versions"]}


@pytest.mark.parametrize("to", ENGINES)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_row_of_every_table_is_in_the_copy_except_leases(make: Make, engine: str, to: str) -> None:
    source, target = filled(make(engine)), make(to)
    copied = copy(source, target)
    assert everything(target) == expected(source, target)
    assert schema_version(target) == schema_version(source)
    assert (len(copied.contents), copied.rows, copied.kept) == (COPIED, COPIED, 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_table_of_the_schema_is_forgotten(make: Make, engine: str) -> None:
    """Every one that a migration makes is copied, or is named with a reason; and the two engines agree on each."""
    database = make(engine)
    migrate(database)
    other = make("sqlite")
    migrate(other)
    assert database.tables() == other.tables()
    made = set(everything(database))
    assert {table.name for table in database.tables()} == made
    assert made - {table.name for table in copied_tables(database)} == {"leases", "schema_versions"}
    assert set(LEFT_OUT) == {"leases", "schema_versions", MARK, REVOKED}


@pytest.mark.parametrize("to", ENGINES)
def test_numbers_go_on_after_the_greatest_ever_given(make: Make, to: str) -> None:
    target = make(to)
    copy(filled(make("sqlite")), target)
    with target.transaction() as transaction:
        given = {
            "audit_keys": transaction.one(
                "INSERT INTO audit_keys (name, sealed_key) VALUES ('next', :key) RETURNING seq", {"key": b"\0"}
            ),
            "data_keys": transaction.one(
                "INSERT INTO data_keys (wrapped, created_at) VALUES (:key, 1) RETURNING id", {"key": b"\0"}
            ),
        }
        assert transaction.revision == 2**40 + 1
    assert given == {"audit_keys": (42,), "data_keys": (8,)}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_changed_value_a_missing_row_and_a_counter_change_the_digest(make: Make, engine: str) -> None:
    database = filled(make(engine))
    tables = {table.name: table for table in database.tables()}

    def seen(name: str) -> Content:
        with database.snapshot():
            return DatabaseSource(database).content(tables[name], ignored)

    for name, change in {
        "signers": "UPDATE signers SET type = 'vault'",
        "relayers": "UPDATE relayers SET paused = NOT paused",
        "attempts": "DELETE FROM attempts",
    }.items():
        before = seen(name)
        with database.migration() as execute:
            execute(change)
        assert seen(name) != before
    before = seen("tokens")
    with database.migration():
        database.set_counter(tables["tokens"], 9)
    assert seen("tokens") == before._replace(counter=9)


@pytest.mark.parametrize("to", ENGINES)
def test_until_it_is_whole_the_target_is_opened_by_nobody(make: Make, to: str, tmp_path: Path) -> None:
    target = make(to)
    copy(filled(make("sqlite")), target, "there")
    assert isinstance(target, PostgresDatabase | SqliteDatabase)
    where: Path | DatabaseUrl = target._url if isinstance(target, PostgresDatabase) else target._path
    with pytest.raises(OperatorError, match="this database is an unfinished copy of there"):
        open_store_at(tmp_path / "home", where, tmp_path / "home" / "master.key")
    assert not (tmp_path / "home" / "master.key").exists()
    remove_mark(target)
    with pytest.raises(OperatorError, match=r"the master key file .* is missing"):
        open_store_at(tmp_path / "home", where, tmp_path / "home" / "master.key")


@pytest.mark.parametrize("to", ENGINES)
def test_begun_again_it_keeps_what_is_the_same_and_copies_from_the_first_table_that_is_not(make: Make, to: str) -> None:
    source, target = filled(make("sqlite")), make(to)
    copy(source, target)
    with source.migration() as execute:
        execute("UPDATE networks SET chain_id = 5")
    again = copy(source, target)
    names = [table.name for table in copied_tables(source)]
    assert again.kept == names.index("networks") > 0
    assert everything(target) == expected(source, target)


@pytest.mark.parametrize("to", ENGINES)
def test_a_target_that_holds_anything_is_refused_and_left_as_it_is(make: Make, to: str) -> None:
    source, target = filled(make("sqlite")), filled(make(to))
    before = everything(target)
    with pytest.raises(OperatorError, match="the target is not empty"):
        copy(source, target)
    assert (everything(target), unfinished_copy_of(target)) == (before, None)


def test_a_target_with_a_table_of_somebody_else_is_refused(make: Make) -> None:
    target = make("postgresql")
    with target.migration() as execute:
        execute("CREATE TABLE theirs (id BIGINT PRIMARY KEY)")
    with pytest.raises(OperatorError, match="the target is not empty"):
        copy(filled(make("sqlite")), target)
    assert [table.name for table in target.tables()] == ["theirs"]


@pytest.mark.parametrize("to", ENGINES)
def test_an_unfinished_copy_of_something_else_is_refused(make: Make, to: str) -> None:
    source, target = filled(make("sqlite")), make(to)
    copy(source, target, "one place")
    before = everything(target)
    with pytest.raises(OperatorError, match="unfinished copy of one place, not of another"):
        copy(source, target, "another")
    assert everything(target) == before


@pytest.mark.parametrize("engine", ENGINES)
def test_a_backup_of_an_older_schema_restores_and_is_then_brought_to_the_newest(
    make: Make, engine: str, tmp_path: Path
) -> None:
    source, target = make("sqlite"), make(engine)
    migrate(source, to=1)
    for table, row in ROWS[1]:
        insert(source, table, row)
    with source.snapshot():
        write_backup(DatabaseSource(source), tmp_path / "backup", MASTER, now=1, advance=ignored)
    with (tmp_path / "backup").open("rb") as file:
        fill(read(tmp_path / "backup", file), target, "old", ignored)
    assert schema_version(target) == 1
    migrate(target)
    (table, row) = ROWS[1][5]
    assert table == "relayers"
    assert [dict(zip(row, each, strict=True)) for each in target.read(f"SELECT {', '.join(row)} FROM {table}")] == [row]


SABOTAGE = "CREATE TRIGGER t AFTER INSERT ON signers BEGIN UPDATE signers SET type = 'other'; END"


def test_a_drill_finds_a_row_that_did_not_come_back_as_it_was(make: Make, tmp_path: Path) -> None:
    source = filled(make("sqlite"))
    with source.snapshot():
        write_backup(DatabaseSource(source), tmp_path / "backup", MASTER, now=1, advance=ignored)
    with (tmp_path / "backup").open("rb") as file, scratch_database() as database:
        set_mark(database, "a drill")
        migrate(database)
        with database.migration() as execute:
            execute(SABOTAGE)
        compared = restore_into_scratch(read(tmp_path / "backup", file), database, unwatched, None)
    assert [each.table for each in compared if each.found != each.expected] == ["signers"]
    assert len(compared) == COPIED


@contextmanager
def unwatched(_what: str, _total: int) -> Iterator[Callable[[int], None]]:
    yield ignored


def test_the_scratch_database_is_gone_afterwards() -> None:
    with scratch_database() as database:
        migrate(database)
        [folder] = {Path(row.file).parent for row in database.read("PRAGMA database_list")}
        assert folder.name.startswith("relaydeck-drill-")
    assert not folder.exists()
