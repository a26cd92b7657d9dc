"""`relaydeck db migrate`, its plan, and a service that leaves the migration to it."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.store.migrate import migrate, newest_version, schema_version
from relaydeck.store.sealed_columns import URLS_SINCE
from relaydeck.store.sqlite import SqliteDatabase
from relaydeck.store.vault import Vault, create_master_key
from relaydeck.store.write_signal import WriteSignal
from tests.support.running import Running, free_port, make_token, run_command


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With the schema of an earlier version."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    create_master_key(home / "master.key")
    with closing(SqliteDatabase(home / "relaydeck.db", WriteSignal(tmp_path / "signal"))) as database:
        migrate(database, to=URLS_SINCE)
        with database.transaction() as transaction:
            Vault(database, home / "master.key").add_data_key(transaction, 0)
    return home


def version(home: Path) -> int:
    with closing(SqliteDatabase(home / "relaydeck.db", WriteSignal(home / "signal"))) as database:
        return schema_version(database)


def test_a_plan_shows_what_a_migration_does_and_changes_nothing(home: Path) -> None:
    shown = run_command(home, "db", "migrate", "--plan")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "UPDATE signers" in shown.stdout and "older services must be stopped first" in shown.stdout
    done = run_command(home, "db", "migrate", "--plan", "--json", "--detailed-exitcode")
    planned = json.loads(done.stdout)
    assert (done.returncode, planned["before"], planned["after"]) == (2, URLS_SINCE, newest_version())
    assert planned["beside_services"] is False
    lock = "writes wait until the migration ends"
    assert [(each["step"], each["work"], each["rows"], each["lock"]) for each in planned["work"]] == [
        (20, "CREATE INDEX audit_console", 0, lock),
        (21, "ALTER TABLE signers", 0, lock),
        (21, "UPDATE signers", 0, lock),
        (22, "ALTER TABLE networks", 0, lock),
        *[(23, "ALTER TABLE networks", 0, lock)] * 5,
        *[(24, f"ALTER TABLE {each}", 0, lock) for each in ("networks", "signers", "notifications", "relayers")],
        (25, "CREATE TABLE person_sessions", 0, lock),
        (25, "CREATE INDEX person_sessions_subject", 0, lock),
        *[(26, "ALTER TABLE tokens", 0, lock)] * 4,
        *[(27, f"CREATE INDEX relayers_by_folded_{each}", 0, lock) for each in ("id", "name", "address")],
        (27, "CREATE INDEX relayers_by_address_end", 0, lock),
        (28, "CREATE TABLE acknowledgements", 0, lock),
        (28, "CREATE INDEX deliveries_finished", 0, lock),
        (28, "CREATE INDEX audit_disabled", 0, lock),
        (29, "ALTER TABLE deliveries", 0, lock),
        (30, "CREATE TABLE protections", 0, lock),
        (30, "CREATE TABLE proposals", 0, lock),
        (30, "CREATE INDEX proposals_open", 0, lock),
        (31, "ALTER TABLE tokens", 0, lock),
        *[(32, "ALTER TABLE protections", 0, lock)] * 2,
        *[
            (33, f"CREATE INDEX {each}", 0, lock)
            for each in ("audit_by_record", "events_by_relayer", "relayers_by_labels")
        ],
        *[(33, "ALTER TABLE clock", 0, lock)] * 4,
    ]
    assert version(home) == URLS_SINCE


def test_a_migration_says_what_it_did_and_a_second_one_does_nothing(home: Path) -> None:
    done = run_command(home, "db", "migrate", log_format="json")
    assert done.returncode == 0
    assert done.stdout.startswith(f"migrated from schema version {URLS_SINCE} to {newest_version()} in ")
    events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert events == [
        f"migration step {step}: {what}" for step in range(20, newest_version() + 1) for what in ("begins", "done")
    ]
    assert version(home) == newest_version()
    again = run_command(home, "db", "migrate")
    assert (again.stdout, again.stderr) == (f"the schema has version {newest_version()}\n", "")
    plan = run_command(home, "db", "migrate", "--plan", "--detailed-exitcode")
    assert (plan.returncode, plan.stdout) == (0, f"nothing to do: the schema has version {newest_version()}\n")


def test_there_is_no_plan_for_a_home_without_data(tmp_path: Path) -> None:
    done = run_command(tmp_path / "none", "db", "migrate", "--plan")
    assert (done.returncode, (tmp_path / "none").exists()) == (1, False)
    assert done.stderr.startswith("relaydeck: there is no Relaydeck data at ")


def test_a_service_can_leave_the_migration_to_the_command(home: Path) -> None:
    refused = run_command(home, "serve", "--no-migrate", "--port", str(free_port()))
    assert (refused.returncode, refused.stderr) == (
        1,
        f"relaydeck: the database has schema version {URLS_SINCE}, this program needs {newest_version()}\n"
        "Run 'relaydeck db migrate' first, or start without --no-migrate.\n",
    )
    assert version(home) == URLS_SINCE
    assert run_command(home, "db", "migrate").returncode == 0
    token = make_token(home, "me")
    with Running(home, "--no-migrate", token=token) as running:
        assert running.ask("GET", "/api/v1/relayers").status == 200


def test_a_new_home_is_created(tmp_path: Path) -> None:
    done = run_command(tmp_path / "new", "db", "migrate", "--json")
    assert (done.returncode, json.loads(done.stdout)["before"]) == (0, 0)
    assert version(tmp_path / "new") == newest_version()


def test_the_detailed_exit_code_is_one_of_a_plan(home: Path) -> None:
    missing = home.parent / "missing"
    done = run_command(missing, "db", "migrate", "--detailed-exitcode")
    assert (done.returncode, "--detailed-exitcode needs --plan" in done.stderr, missing.exists()) == (2, True, False)
