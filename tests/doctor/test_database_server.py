"""`relaydeck doctor` on a PostgreSQL server: what keeps a service from working although the server answers."""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from relaydeck.doctor import Finding
from relaydeck.doctor.all_checks import findings
from relaydeck.doctor.machine import Machine
from relaydeck.errors import StoreTrouble
from relaydeck.settings.model import Settings
from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.open_store import connect_database
from tests.support.places import place_of
from tests.support.pooler import TransactionPooler
from tests.support.postgres import PASSWORD, PostgresServer
from tests.support.running import make_token


@pytest.fixture
def settings(tmp_path: Path, lend: Callable[[Path, str], Path]) -> Settings:
    home = lend(tmp_path / "home", "postgresql")
    make_token(home, "t")
    where = place_of(home)
    assert isinstance(where, DatabaseUrl)
    return Settings(home=home, database_url=where)


def found_by(settings: Settings, subject: str, now: Callable[[], float] = time.time) -> list[Finding]:
    return [each for each in findings(settings, Machine(now)) if each.subject == subject and each.result != "ok"]


def test_a_pooler_in_transaction_mode(settings: Settings, postgres: PostgresServer) -> None:
    assert settings.database_url is not None
    with closing(TransactionPooler(postgres.port)) as pooler:
        url = DatabaseUrl(settings.database_url.reveal().replace(f":{postgres.port}/", f":{pooler.port}/"))
        found = found_by(replace(settings, database_url=url), "database")
    assert found[0] == Finding(
        "FAIL",
        "database",
        f"the database {url} is behind a pooler in transaction mode; Relaydeck needs sessions of its own, for locks and"
        " notifications: connect to the server directly, or set the pooler to session mode.",
    )


def test_a_role_that_may_not_create_temporary_tables(settings: Settings, postgres: PostgresServer) -> None:
    assert settings.database_url is not None
    name = settings.database_url.reveal().rpartition("/")[2]
    postgres.ask(f"CREATE ROLE \"No temp\" LOGIN PASSWORD '{PASSWORD}' IN ROLE pg_read_all_data, pg_write_all_data")
    limited = DatabaseUrl(settings.database_url.reveal().replace("relaydeck:", "No%20temp:"))
    postgres.ask(f"REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC")
    with (
        closing(connect_database(limited, settings.run_folder)) as database,
        pytest.raises(StoreTrouble, match="permission denied to create temporary tables"),
        database.migration() as run,
    ):
        run("CREATE TEMP TABLE staged (n INTEGER)")
    (found,) = found_by(replace(settings, database_url=limited), "database")
    assert found == Finding(
        "FAIL",
        "database",
        'the role "No temp" may not create temporary tables, so an apply fails;'
        f' Run: GRANT TEMPORARY ON DATABASE {name} TO "No temp"',
    )
    postgres.ask(f'GRANT TEMPORARY ON DATABASE {name} TO "No temp"')
    assert found_by(replace(settings, database_url=limited), "database") == []


@pytest.mark.parametrize(("hours", "differs"), [(2, "7200 s ahead of"), (-2, "7200 s behind")])
def test_a_clock_that_differs_from_that_of_the_server(settings: Settings, hours: int, differs: str) -> None:
    assert found_by(settings, "clock") == []
    found = found_by(settings, "clock", lambda: time.time() + hours * 3600)
    remark = f"it is {differs} that of the database server; set the one that is wrong: tokens expire by this machine's"
    assert Finding("FAIL", "clock", remark) in found
