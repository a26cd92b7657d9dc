"""PgBouncer between Relaydeck and PostgreSQL: what works, and what `serve` and `doctor` say about what does not."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relaydeck.settings.values import DatabaseUrl
from relaydeck.store.postgres_connection import connect
from tests.support.places import place_of
from tests.support.pooler import PgBouncer
from tests.support.postgres import PostgresServer
from tests.support.running import Running, free_port, make_token, run_command

pytestmark = [pytest.mark.prove, pytest.mark.parallel]
SHARED = "is behind a pooler in transaction mode"


@pytest.fixture
def home(tmp_path: Path, lend: Callable[[Path, str], Path]) -> Path:
    home = lend(tmp_path / "home", "postgresql")
    make_token(home, "t")
    return home


@pytest.fixture
def pooled(home: Path, postgres: PostgresServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of the home's database through a PgBouncer with the settings of the test."""
    where = place_of(home)
    assert isinstance(where, DatabaseUrl)
    with closing(PgBouncer(postgres, **request.param)) as bouncer:
        yield bouncer.pooled(where).reveal()


def doctor(home: Path, url: str) -> list[str]:
    """What is wrong with the database."""
    found = json.loads(run_command(home, "doctor", "--json", database_url=url).stdout)
    assert [each["subject"] for each in found].count("database") > 0
    return [each["remark"] for each in found if each["subject"] == "database" and each["result"] != "ok"]


def start(home: Path, url: str) -> str:
    """What `serve` says when it does not start."""
    done = run_command(home, "serve", "--port", str(free_port()), database_url=url)
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize(
    "pooled",
    [
        {"pool_mode": "transaction"},
        {"pool_mode": "transaction", "server_round_robin": "1", "min_pool_size": "3"},
    ],
    indirect=True,
)
def test_transaction_mode_is_refused_by_the_start_and_reported(home: Path, pooled: str) -> None:
    assert SHARED in start(home, pooled)
    (problem,) = doctor(home, pooled)
    assert SHARED in problem and "set the pooler to session mode" in problem


@pytest.mark.parametrize("pooled", [{"pool_mode": "session"}], indirect=True)
def test_a_parameter_that_the_pooler_refuses_is_named(home: Path, pooled: str) -> None:
    advice, url = (
        "Add options to ignore_startup_parameters of the pooler, or remove it",
        f"{pooled}?options=-c%20jit%3Doff",
    )
    assert advice in start(home, url)
    (problem,) = doctor(home, url)
    assert advice in problem


@pytest.mark.parametrize("pooled", [{"pool_mode": "session"}], indirect=True)
def test_session_mode_works_with_the_limits_of_a_session(home: Path, pooled: str) -> None:
    with closing(connect(DatabaseUrl(pooled), writes=True)) as connection:
        limit = connection.execute("SELECT current_setting('idle_in_transaction_session_timeout')").fetchone()
        assert limit == ("4s",)
    with Running(home, database_url=pooled) as running:
        token = make_token(home, "through")
        created = running.ask("POST", "/api/v1/signers", {"type": "plain", "config": {"key": "k"}}, token=token)
        assert created.status == 201
        assert doctor(home, pooled) == []
