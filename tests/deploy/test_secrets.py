"""The secrets that `make-secrets` makes open what they are for: Relaydeck, Valkey, and libpq."""

import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from relaydeck.http.shared_limits import LimitClient, bucket_of
from relaydeck.secret import Secret
from tests.deploy.test_files import CONFIG, DEPLOY
from tests.support.running import Running, clean_environment, free_port
from tests.support.valkey import Valkey


def make_secrets(folder: Path) -> dict[str, str]:
    subprocess.run([DEPLOY / "make-secrets", folder], check=True, capture_output=True)
    return {path.name: path.read_text("utf-8") for path in folder.iterdir()}


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deploy") / "secrets"
    make_secrets(folder)
    return folder


@pytest.fixture(scope="module")
def valkey(secrets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    server = Valkey(tmp_path_factory.mktemp("valkey"), aclfile=str(secrets / "valkey.acl"))
    yield server
    server.stop()


def test_they_are_made_once_and_each_is_another(secrets: Path) -> None:
    before = {path.name: path.read_text("utf-8") for path in secrets.iterdir()}
    assert make_secrets(secrets) == before
    random = [before[name] for name in ("master.key", "bootstrap.token", "postgres.password", "limits.password")]
    assert len(set(random)) == 4
    assert [secret for secret in random if not re.fullmatch("[0-9a-f]{64}", secret)] == []


def test_the_folder_is_its_owner_s_alone(secrets: Path) -> None:
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700


async def test_the_limits_user_may_take_from_a_bucket(secrets: Path, valkey: Valkey) -> None:
    client = LimitClient(
        Secret(f"valkey://relaydeck@127.0.0.1:{valkey.port}/0"), secrets / "limits.password", timeout_seconds=5
    )
    await client.connect()
    try:
        assert await client.take(1, 5, {bucket_of(b"x"): 1}) == [5_000_000]
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("user", "command"),
    [
        ("relaydeck", ["FLUSHALL"]),
        ("relaydeck", ["GET", "other"]),
        ("relaydeck", ["CONFIG", "GET", "*"]),
        (None, ["GET", "x"]),
    ],
)
def test_nobody_may_do_anything_else(secrets: Path, valkey: Valkey, user: str | None, command: list[str]) -> None:
    password = (secrets / "limits.password").read_text() if user else None
    with (
        redis.Redis(port=valkey.port, username=user, password=password) as client,
        pytest.raises((redis.exceptions.NoPermissionError, redis.exceptions.AuthenticationError)),
    ):
        client.execute_command(*command)


def test_libpq_finds_the_password_by_its_service(secrets: Path, tmp_path: Path) -> None:
    look = "{each.keyword: each.val for each in Conninfo.get_defaults()}[b'password'].decode()"
    code = f"from psycopg.pq import Conninfo; print({look})"
    environment = clean_environment(tmp_path) | {
        "PGSERVICE": CONFIG["PGSERVICE"],
        "PGSERVICEFILE": str(secrets / "pg_service.conf"),
    }
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == (secrets / "postgres.password").read_text()


def test_a_replica_serves_with_them(secrets: Path, valkey: Valkey, tmp_path: Path) -> None:
    """The environment of the cluster, with this machine's places; SQLite stands where PostgreSQL would."""
    port, home = free_port(), tmp_path / "home"
    given = {name: value.replace("/etc/relaydeck/secrets", str(secrets)) for name, value in CONFIG.items()}
    given |= {
        "RELAYDECK_DATABASE_URL": f"sqlite:///{home}/relaydeck.db",
        "RELAYDECK_LIMITS_URL": f"valkey://relaydeck@127.0.0.1:{valkey.port}/0",
        "RELAYDECK_LIMITS_TIMEOUT_SECONDS": "5",
        "RELAYDECK_OPERATIONS_ADDRESS": f"127.0.0.1:{port}",
    }
    settings = {name.removeprefix("RELAYDECK_").lower(): value for name, value in given.items() if name[:2] != "PG"}
    del settings["home"]
    with Running(home, token=(secrets / "bootstrap.token").read_text(), **settings) as running:
        answered = running.ask("GET", "/api/v1/relayers")
        assert (answered.status, answered.headers["ratelimit"]) == (200, '"default";r=299;t=1')
        assert running.ask("GET", "/admin/v1/tokens").status == 200
        running.port = port
        running.await_answer()
        assert running.ask("GET", "/readyz").status == 200
    assert "the limit server cannot be used" not in running.log
