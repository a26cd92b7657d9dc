"""A database that an earlier version filled is brought to the newest schema with everything in it."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from relaydeck.errors import StoreMisuse
from relaydeck.store import migrate as migrating
from relaydeck.store.database import Advance, Database, ShowProgress
from relaydeck.store.migrate import ADDITION, INDEX, UPDATE, Step, migrate, newest_version, plan, schema_version, steps
from relaydeck.store.postgres import PostgresDatabase
from relaydeck.store.postgres_reader import PostgresReader
from relaydeck.store.sealed_columns import SEALED_COLUMNS, URLS_SINCE, VERSIONS_SINCE
from relaydeck.store.sqlite import SqliteDatabase
from relaydeck.store.vault import Vault, create_master_key, existing_keyring, read_master_keys
from relaydeck.store.write_signal import WriteSignal
from tests.support.places import ENGINES
from tests.support.postgres import PostgresServer
from tests.support.running import eventually

# What each version brought along: a row for every table of it. A new migration adds its own.
ROWS: dict[int, list[tuple[str, dict[str, Any]]]] = {
    1: [
        ("data_keys", {"id": 7, "wrapped": b"\x01wrapped", "created_at": 1}),
        (
            "tokens",
            {
                "seq": 3,
                "name": "me",
                "kind": "api",
                "digest": bytes(32),
                "created_at": 1,
                "expires_at": None,
                "revoked_at": 2,
                "revision": 5,
            },
        ),
        (
            "networks",
            {
                "seq": 1,
                "name": "dev",
                "network_type": "evm",
                "chain_id": 2**53,
                "native_symbol": "ETH",
                "sealed_rpc_urls": b"\0",
                "fee_tokens": "[]",
                "origin": "api",
                "created_at": 1,
                "revision": 5,
            },
        ),
        (
            "signers",
            {
                "seq": 1,
                "id": "ops ü",
                "type": "plain",
                "open_config": "{}",
                "sealed_config": b"\xff",
                "origin": "api",
                "created_at": 1,
                "revision": 5,
            },
        ),
        (
            "notifications",
            {
                "seq": 1,
                "id": "pager",
                "type": "webhook",
                "url": "https://h/x",
                "sealed_signing_key": None,
                "origin": "api",
                "created_at": 1,
                "revision": 5,
            },
        ),
        (
            "relayers",
            {
                "seq": 9,
                "id": "r",
                "name": "R",
                "network": "dev",
                "network_type": "evm",
                "address": "0x0",
                "signer_id": "ops ü",
                "notification_id": "pager",
                "paused": True,
                "system_disabled": False,
                "disabled_reason": None,
                "sealed_rpc_urls": None,
                "policies": "{}",
                "origin": "apply",
                "created_at": 1,
                "revision": 6,
            },
        ),
        ("removals", {"revision": 4, "resource": "signers", "seq": 2}),
    ],
    2: [
        (
            "events",
            {
                "seq": 4,
                "id": "evt_4",
                "kind": "relayer.paused",
                "relayer_id": "r",
                "notification_id": "pager",
                "data": "{}",
                "created_at": 1,
            },
        ),
        (
            "deliveries",
            {
                "seq": 4,
                "notification_id": "pager",
                "relayer_id": "r",
                "state": "pending",
                "in_line": True,
                "tries": 1,
                "due_at": 0,
                "finished_at": None,
                "revision": 7,
            },
        ),
        (
            "attempts",
            {
                "seq": 1,
                "delivery": 4,
                "started_at": 1,
                "duration": 2,
                "status": 500,
                "problem": "",
                "answer": "no",
            },
        ),
        ("leases", {"name": "delivery", "holder": "h", "fence": 3, "expires_at": 8}),
    ],
    3: [
        (
            "audit",
            {
                "seq": 1,
                "moment": 1,
                "actor": "cli:me",
                "action": "x.y",
                "record": "r",
                "before_change": None,
                "after_change": "{}",
                "hash": bytes(32),
            },
        ),
        ("audit_keys", {"seq": 1, "name": "chain", "sealed_key": b"\x01"}),
        ("idempotency_keys", {"seq": 1, "scope": "s", "sealed_answer": b"\x02", "created_at": 1}),
    ],
    4: [
        (
            "troubles",
            {
                "relayer_id": "r",
                "failed_rounds": 2,
                "failing_since": 1,
                "evidence": "[]",
                "low_since": None,
                "balance": str(10**24),
                "checked_at": 3,
            },
        ),
    ],
    8: [
        (
            "signer_checks",
            {"signer_id": "ops ü", "checked_at": 1, "outcome": "ok", "alarm": "", "result": "{}"},
        ),
    ],
    9: [
        ("balances", {"relayer_seq": 9, "since": 60, "until": 120, "balance": str(10**30), "spent": "7"}),
    ],
    10: [
        ("console_sessions", {"seq": 1, "digest": bytes(32), "token_seq": 3, "created_at": 1, "used_at": 2}),
        ("console_codes", {"seq": 1, "digest": bytes(32), "token_seq": 3, "expires_at": 1}),
    ],
    11: [
        ("runways", {"relayer_seq": 9, "computed_at": 60, "minimum_at": None, "low_since": 7}),
    ],
    25: [
        (
            "person_sessions",
            {
                "seq": 1,
                "digest": bytes(32),
                "issuer": "company",
                "subject": "ü",
                "person": "a@b",
                "role": "owner",
                "rule": "company: groups = x",
                "sid": "",
                "created_at": 1,
                "used_at": 2,
                "checked_at": 2,
                "proof": bytes(16),
                "encrypted_refresh_token": None,
                "refreshing_at": 0,
            },
        ),
    ],
    28: [
        (
            "acknowledgements",
            {
                "problem": "6f1ed002ab559585",
                "note": "provider told ü",
                "acknowledged_by": "token:root",
                "acknowledged_at": 1,
                "until": 2,
            },
        ),
    ],
    30: [
        (
            "protections",
            {
                "seq": 1,
                "name": "main",
                "kinds": "[]",
                "scope": '{"networks":["ü"]}',
                "note": "",
                "made_by": "token:root",
                "created_at": 1,
            },
        ),
        (
            "proposals",
            {
                "seq": 1,
                "id": "p",
                "state": "open",
                "operation": "update_relayer",
                "plan": "[]",
                "protections": '["main"]',
                "revision": '"x"',
                "author": "token:root",
                "reason": "ü",
                "created_at": 1,
                "expires_at": 2,
                "sealed_request": None,
                "decided_by": None,
                "decided_at": None,
                "decision": "",
            },
        ),
    ],
}


@pytest.fixture(params=ENGINES)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    database: Database = SqliteDatabase(tmp_path / "db", WriteSignal(tmp_path / "write-signal"))
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        database = PostgresDatabase(server.url(server.fresh()), WriteSignal(tmp_path / "write-signal"))
    yield database
    database.close()


@pytest.fixture
def migrate_to(monkeypatch: pytest.MonkeyPatch) -> Callable[[Database, int], None]:
    """Migrates as the program did that knew no more than that version."""

    def migrating_to(database: Database, version: int) -> None:
        known = steps()[:version]
        with monkeypatch.context() as patch:
            patch.setattr(migrating, "steps", lambda: known)
            migrate(database)

    return migrating_to


def insert(database: Database, table: str, row: dict[str, Any]) -> None:
    with database.migration() as execute:  # a transaction of today asks tables that an earlier version had not
        named = ", ".join(f":{column}" for column in row)
        execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({named})", row)


def stored(database: Database, table: str, row: dict[str, Any]) -> list[dict[str, Any]]:
    found = database.read(f"SELECT {', '.join(row)} FROM {table}")
    return [dict(zip(row, each, strict=True)) for each in found]


def test_each_version_takes_over_what_the_one_before_it_stored(
    empty: Database, migrate_to: Callable[[Database, int], None]
) -> None:
    rows: list[tuple[str, dict[str, Any]]] = []
    for version in range(1, newest_version() + 1):
        migrate_to(empty, version)
        for table, row in ROWS.get(version, []):
            insert(empty, table, row)
            rows.append((table, row))
        assert [stored(empty, table, row) for table, row in rows] == [[row] for _, row in rows]


@pytest.mark.parametrize(
    "empty", ["sqlite", pytest.param("postgresql", marks=[pytest.mark.prove, pytest.mark.parallel])], indirect=True
)
@pytest.mark.parametrize("version", range(1, newest_version() + 1))
def test_a_filled_database_of_every_version_is_brought_to_the_newest(
    empty: Database, migrate_to: Callable[[Database, int], None], version: int
) -> None:
    migrate_to(empty, version)
    assert schema_version(empty) == version
    rows = [each for brought in range(1, version + 1) for each in ROWS.get(brought, [])]
    for table, row in rows:
        insert(empty, table, row)
    revision = empty.read("SELECT revision FROM clock")

    assert migrate(empty) == version

    assert schema_version(empty) == newest_version()
    assert [stored(empty, table, row) for table, row in rows] == [[row] for _, row in rows]
    assert empty.read("SELECT revision FROM clock") == revision


@pytest.mark.parametrize("empty", ["sqlite"], indirect=True)
@pytest.mark.parametrize("version", range(URLS_SINCE, newest_version()))
def test_the_next_version_changes_no_value_that_a_version_reads(
    empty: Database, migrate_to: Callable[[Database, int], None], tmp_path: Path, version: int
) -> None:
    """A replica of a version may run beside the newest one. The versions before changed sealed values."""
    migrate_to(empty, version)
    create_master_key(tmp_path / "master.key")
    vault = Vault(empty, tmp_path / "master.key")
    with empty.transaction() as transaction:
        vault.add_data_key(transaction, 0)
    keyring = existing_keyring(empty, tmp_path / "master.key")
    assert keyring is not None
    for table, row in [each for brought in range(1, version + 1) for each in ROWS.get(brought, [])]:
        if table != "data_keys":
            sealed = {
                each.column: keyring.seal(b"a value", each.place(row[each.identity], row.get(each.version_column, 0)))
                for each in SEALED_COLUMNS
                if each.table == table and each.identity in row
            }
            insert(empty, table, row | sealed)
    tables = [each for each in empty.tables() if each.name != "schema_versions"]
    before = [empty.read(f"SELECT {', '.join(each.column_names)} FROM {each.name}") for each in tables]

    migrate(empty, keyring=keyring)

    assert [empty.read(f"SELECT {', '.join(each.column_names)} FROM {each.name}") for each in tables] == before


def test_every_table_of_a_version_has_a_row_above(empty: Database) -> None:
    migrate(empty)
    known = {table for rows in ROWS.values() for table, _ in rows} | {"clock", "schema_versions"}
    assert {table for table in known if not empty.has_table(table)} == set()
    made = {word.split()[2] for _, sql in steps() for word in sql.splitlines() if word.startswith("CREATE TABLE ")}
    assert made - known == set()


def test_a_step_that_fails_leaves_nothing_behind(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [*steps(), Step(newest_version() + 1, "CREATE TABLE half (id INT); CREATE TABLE half (id INT);")]
    monkeypatch.setattr(migrating, "steps", lambda: broken)
    with pytest.raises(StoreMisuse, match="half"):
        migrate(empty)
    assert [empty.has_table(name) for name in ("half", "clock", "schema_versions")] == [False] * 3
    assert schema_version(empty) == 0


@pytest.mark.parametrize("version", range(URLS_SINCE + 1, newest_version() + 1))
def test_a_step_that_runs_beside_services_has_only_statements_that_can(version: int) -> None:
    """Write a new migration with these forms, or find out first how others can write meanwhile."""
    statements = steps()[version - 1].statements({"serial": "BIGINT", "bytes": "BYTEA"})
    assert [each for each in statements if not any(form.match(each) for form in (INDEX, ADDITION, UPDATE))] == []


class Interrupted(Exception):
    pass


def interrupted_after(works: int) -> ShowProgress:
    done = count(1)

    @contextmanager
    def progress(_title: str, _total: int) -> Iterator[Advance]:
        yield lambda _rows: None
        if next(done) == works:
            raise Interrupted

    return progress


def fill(database: Database, version: int) -> None:
    for brought in range(1, version + 1):
        for table, row in ROWS.get(brought, []):
            if table != "data_keys":
                insert(database, table, row)
    entry = {"seq": 2, "moment": 1, "actor": "cli:me", "action": "signer.created", "record": "ops ü", "hash": bytes(32)}
    insert(database, "audit", entry)


def contents(database: Database) -> list[Any]:
    tables = [each for each in database.tables() if each.name != "schema_versions"]
    return [(each, database.read(each.in_order)) for each in tables]


@pytest.mark.parametrize("empty", ["postgresql"], indirect=True)
def test_a_migration_beside_services_continues_after_each_interruption(
    empty: Database, migrate_to: Callable[[Database, int], None], postgres: PostgresServer, tmp_path: Path
) -> None:
    migrate_to(empty, URLS_SINCE)
    fill(empty, URLS_SINCE)
    for works in count(1):
        try:
            migrate(empty, progress=interrupted_after(works))
            break
        except Interrupted:
            assert schema_version(empty) < newest_version()
    assert (works > 3, schema_version(empty)) == (True, newest_version())
    assert [row.id for row in empty.read("SELECT id FROM signers WHERE set_locally")] == ["ops ü"]
    assert empty.read("SELECT 1 AS one FROM pg_index WHERE NOT indisvalid") == []
    other = PostgresDatabase(postgres.url(postgres.fresh()), WriteSignal(tmp_path / "other"))
    with closing(other):
        migrate(other)
        assert [each for each, _ in contents(empty)] == [each for each, _ in contents(other)]


def test_a_long_read_delays_a_migration_and_no_write(
    migrate_to: Callable[[Database, int], None], postgres: PostgresServer, tmp_path: Path
) -> None:
    name = postgres.fresh()
    url = postgres.url(name)
    with closing(PostgresDatabase(url, WriteSignal(tmp_path / "one"))) as migrated:
        migrate_to(migrated, URLS_SINCE + 1)  # a column comes next
        fill(migrated, URLS_SINCE)
        migrating = Thread(target=migrate, args=[migrated])
        with (
            closing(PostgresReader(url)) as reader,
            closing(PostgresDatabase(url, WriteSignal(tmp_path / "two"))) as other,
        ):
            with reader.snapshot():
                reader.read("SELECT id FROM signers")
                migrating.start()
                waiting = "SELECT 1 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted"
                eventually(lambda: bool(postgres.ask(waiting, name)))
                for _ in range(3):
                    with other.transaction() as transaction:
                        transaction.execute("UPDATE signers SET revision = :new", {"new": transaction.revision})
                assert schema_version(other) < newest_version()
            migrating.join()
        assert schema_version(migrated) == newest_version()


@pytest.mark.parametrize("version", [5, VERSIONS_SINCE - 1, URLS_SINCE, newest_version()])
def test_a_plan_names_each_missing_step_and_changes_nothing(
    empty: Database, migrate_to: Callable[[Database, int], None], tmp_path: Path, version: int
) -> None:
    migrate_to(empty, version)
    create_master_key(tmp_path / "master.key")
    master = read_master_keys(tmp_path / "master.key")[0]
    insert(empty, "data_keys", {"id": 1, "wrapped": master.wrap(bytes(32)), "created_at": 1})
    fill(empty, version)
    before = contents(empty)
    planned = plan(empty, existing_keyring(empty, tmp_path / "master.key"))
    assert sorted({each.step for each in planned}) == list(range(version + 1, newest_version() + 1))
    assert [each for each in planned if each.seconds < 0 or not each.lock] == []
    if version == URLS_SINCE:
        assert [(each.step, each.work, each.rows) for each in planned] == [
            (20, "CREATE INDEX audit_console", 2),
            (21, "ALTER TABLE signers", 0),
            (21, "UPDATE signers", 1),
            (22, "ALTER TABLE networks", 0),
            *[(23, "ALTER TABLE networks", 0)] * 5,
            *[(24, f"ALTER TABLE {table}", 0) for table in ("networks", "signers", "notifications", "relayers")],
            (25, "CREATE TABLE person_sessions", 0),
            (25, "CREATE INDEX person_sessions_subject", 0),
            *[(26, "ALTER TABLE tokens", 0)] * 4,
            *[(27, f"CREATE INDEX relayers_by_{each}", 1) for each in ("folded_id", "folded_name", "folded_address")],
            (27, "CREATE INDEX relayers_by_address_end", 1),
            (28, "CREATE TABLE acknowledgements", 0),
            (28, "CREATE INDEX deliveries_finished", 1),
            (28, "CREATE INDEX audit_disabled", 2),
            (29, "ALTER TABLE deliveries", 0),
            (30, "CREATE TABLE protections", 0),
            (30, "CREATE TABLE proposals", 0),
            (30, "CREATE INDEX proposals_open", 0),
            (31, "ALTER TABLE tokens", 0),
            *[(32, "ALTER TABLE protections", 0)] * 2,
            (33, "CREATE INDEX audit_by_record", 2),
            (33, "CREATE INDEX events_by_relayer", 1),
            (33, "CREATE INDEX relayers_by_labels", 1),
            *[(33, "ALTER TABLE clock", 0)] * 4,
        ]
    if version < VERSIONS_SINCE:
        assert [each.rows for each in planned if each.work == "seal or prove stored values"][-2:] == [4, 1]
    assert (contents(empty), schema_version(empty)) == (before, version)
