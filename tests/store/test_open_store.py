"""The home folder: what makes it, what it refuses to open, what it does with a sealed value that was tampered with."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relaydeck.errors import OperatorError
from relaydeck.networks.model import RpcUrl
from relaydeck.store.files import opening_lock
from relaydeck.store.open_store import open_store_at
from tests.support.running import Running, free_port, run_command
from tests.support.seeding import fill, issue, relayer, relayer_shown


def contents(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """These look into SQLite's own files."""
    return tmp_path / "home"


@pytest.fixture
def made(home: Path) -> Path:
    """A home that was used and closed."""
    issue(home)
    return home


def test_creating_a_token_creates_the_home_without_a_prompt(home: Path) -> None:
    done = run_command(home, "token", "create", "first")
    assert (done.returncode, done.stderr) == (0, f"relaydeck: created a new home in {home}\n")
    assert sorted(path.name for path in home.iterdir()) == ["master.key", "relaydeck.db", "run"]


def test_only_the_owner_may_read_what_is_in_the_home(made: Path) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in [made, *made.rglob("*")]}
    assert modes["home"] == modes["run"] == 0o700
    assert {mode for name, mode in modes.items() if name not in ("home", "run")} == {0o600}


def wrong(made: Path) -> str:
    (made / "master.key").write_text("00" * 32 + "\n")
    return (
        "relaydeck: the master key does not open this database's keyring\n"
        "Restore the master key file of this database (RELAYDECK_MASTER_KEY_FILE)."
        " If 'relaydeck key rotate --master' replaced the key, copy the file from where that ran.\n"
    )


def missing(made: Path) -> str:
    (made / "master.key").unlink()
    return (
        f"relaydeck: the master key file {made / 'master.key'} is missing\n"
        "Put your copy of it back, or correct RELAYDECK_MASTER_KEY_FILE: without it the sealed secrets of this database"
        " cannot be opened. Only a backup made"
        " with --with-master-key contains it.\n"
    )


def no_key(made: Path) -> str:
    (made / "master.key").write_text("a master key\n")
    return (
        f"relaydeck: the master key file {made / 'master.key'} cannot be used: it is not 64 hexadecimal digits\n"
        "Check the file and its permissions, or restore it from your backup.\n"
    )


@pytest.mark.parametrize("spoil", [wrong, missing, no_key])
def test_an_unusable_master_key_stops_the_start_with_a_clear_message(
    made: Path, spoil: Callable[[Path], object]
) -> None:
    message = spoil(made)
    done = run_command(made, "serve", "--port", str(free_port()))
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


@pytest.mark.parametrize("spoil", [wrong, missing, no_key])
def test_an_unusable_master_key_changes_nothing(made: Path, spoil: Callable[[Path], object]) -> None:
    spoil(made)
    before = contents(made)
    with pytest.raises(OperatorError):
        open_store_at(made, made / "relaydeck.db", made / "master.key")
    assert contents(made) == before


def test_a_home_opens_again_once_its_master_key_is_back(made: Path) -> None:
    kept = (made / "master.key").read_bytes()
    missing(made)
    with pytest.raises(OperatorError):
        open_store_at(made, made / "relaydeck.db", made / "master.key")
    (made / "master.key").write_bytes(kept)
    issue(made, "more")


def test_no_empty_database_is_served_in_the_place_of_one_that_is_missing(made: Path) -> None:
    (made / "relaydeck.db").rename(made.parent / "kept")
    done = run_command(made, "serve", "--port", str(free_port()))
    traces = f"{made}/master.key and {made}/run/write-signal"
    assert (done.returncode, done.stderr) == (
        1,
        f"relaydeck: the database file {made}/relaydeck.db is missing, but this home had a database: see {traces}\n"
        "Put it back, restore a backup, or correct RELAYDECK_DATABASE_URL. If you want a new, empty database, create it"
        " with 'relaydeck token create NAME'.\n",
    )
    assert not (made / "relaydeck.db").exists()
    created = run_command(made, "token", "create", "x")
    assert (created.returncode, created.stderr) == (0, f"relaydeck: created a new database at {made}/relaydeck.db\n")
    with Running(made) as running:
        assert running.ask("GET", "/healthz").status == 200


def test_a_first_start_may_bring_its_master_key(home: Path, tmp_path: Path) -> None:
    """A database that is lost later is missed, too, because the home was written to."""
    (tmp_path / "key").write_text("ab" * 32)
    with Running(home, master_key_file=str(tmp_path / "key")) as running:
        assert running.ask("GET", "/healthz").status == 200
    (home / "relaydeck.db").unlink()
    lost = run_command(home, "serve", "--port", str(free_port()), master_key_file=str(tmp_path / "key"))
    assert lost.returncode == 1 and f"see {home}/run/write-signal\n" in lost.stderr


def test_a_start_that_waits_too_long_names_the_lock_that_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relaydeck.store.files._LONGEST_WAIT", 0.1)
    with opening_lock(tmp_path), pytest.raises(OperatorError) as refused, opening_lock(tmp_path):
        pass
    assert (refused.value.problem, refused.value.remedy) == (
        "waited 0.1 seconds for another process that opens this home",
        f"Wait until it is ready, or end it: it is the process that has locked {tmp_path / 'run' / 'opening'}.",
    )


def test_a_home_that_cannot_be_made_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_command(tmp_path / "file" / "home", "token", "create", "first")
    assert done.returncode == 1
    assert done.stderr.startswith(f"relaydeck: the folder {tmp_path / 'file' / 'home'} cannot be created: ")


def urls(name: str) -> tuple[RpcUrl, ...]:
    return (RpcUrl(f"https://node.example.com/{name}", 2),)


def shown(name: str) -> dict[str, object]:
    return relayer_shown(name, custom_rpc_urls=[{"url": f"https://node.example.com/{name}", "weight": 2}])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Three relayers; the sealed URLs of the second were exchanged for those of the third."""
    home = tmp_path_factory.mktemp("tampered") / "home"
    fill(home, relayers=[relayer(name, custom_rpc_urls=urls(name)) for name in ("one", "two", "three")])
    connection = sqlite3.connect(home / "relaydeck.db", isolation_level=None)
    connection.execute(
        "UPDATE relayers SET sealed_rpc_urls ="
        " (SELECT sealed_rpc_urls FROM relayers WHERE id = 'three') WHERE id = 'two'"
    )
    connection.close()
    with Running(home, token=issue(home)) as running:
        yield running


def test_a_relayer_whose_urls_were_tampered_with_is_shown_without_them(served: Running) -> None:
    damaged = {name: value for name, value in shown("two").items() if name != "custom_rpc_urls"}
    note = "custom_rpc_urls of a relayer on this page cannot be opened and is left out; see the service's log"
    assert served.ask("GET", "/api/v1/relayers").json == {
        "data": [shown("one"), damaged, shown("three")],
        "error": "",
        "metadata": {"logs": [{"level": "log", "message": note}], "traces": []},
        "pagination": {"current_page": 1, "per_page": 10, "total_items": 3},
        "success": True,
    }


def test_a_page_without_the_tampered_relayer_says_nothing_of_it(served: Running) -> None:
    answer = served.ask("GET", "/api/v1/relayers?page=3&per_page=1").json
    assert (answer["data"], answer["metadata"]) == ([shown("three")], {"logs": [], "traces": []})


def test_a_call_through_the_tampered_relayer_fails_loudly(served: Running) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "feeEstimate", "params": {}}
    answer = served.ask("POST", "/api/v1/relayers/two/rpc", call)
    assert (answer.status, answer.json) == (
        500,
        {"data": None, "message": "Internal Server Error", "success": False},
    )


def test_a_call_through_another_relayer_is_answered(served: Running) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "none", "params": {}}
    assert served.ask("POST", "/api/v1/relayers/one/rpc", call).status == 200


def test_a_sealed_value_that_does_not_open_is_counted_once_for_each_reading(served: Running) -> None:
    served.ask("GET", "/api/v1/relayers")
    assert "\nrelaydeck_damaged_values_total 1\n" in served.ask("GET", "/metrics").body.decode()


def test_a_sealed_value_that_does_not_open_is_logged_as_an_error(served: Running) -> None:
    served.ask("GET", "/api/v1/relayers")
    served.stop()
    events = [json.loads(line) for line in served.log.splitlines()]
    damage = [{k: v for k, v in each.items() if k != "time"} for each in events if each["event"].startswith("a sealed")]
    assert damage == [
        {"level": "error", "event": "a sealed value cannot be opened", "record": "two", "table": "relayers"}
    ]
