"""The shell completes ids and names of stored records, on a home and on a server. What fails completes nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from relaydeck.cli.commands import cli
from tests.conftest import DEMO
from tests.support.running import Running, free_port, make_token, run_command
from tests.support.seeding import fill, issue, relayer, withdraw

HOME = ("RELAYDECK_HOME", "RELAYDECK_URL", "RELAYDECK_TOKEN", "RELAYDECK_PROFILE")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in HOME:
        monkeypatch.delenv(name, raising=False)


def completed(*words: str) -> list[str]:
    found = ShellComplete(cli, {}, "relaydeck", "_COMPLETE").get_completions(list(words[:-1]), words[-1])
    return [each.value for each in found]


def test_records_of_a_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(home, relayers=[relayer("prod-1"), relayer("prod-2"), relayer("test%1")])
    issue(home, "ci")
    issue(home, "gone")
    withdraw(home, "gone")
    monkeypatch.setenv("RELAYDECK_HOME", str(home))
    assert completed("relayer", "show", "prod") == ["prod-1", "prod-2"]
    assert completed("relayer", "why", "") == ["prod-1", "prod-2", "test%1"]
    assert completed("relayer", "runway", "test%") == ["test%1"]
    assert completed("relayer", "update", "%") == []
    assert completed("estimate", "prod-2") == ["prod-2"]
    assert completed("token", "revoke", "") == ["ci"]
    monkeypatch.setenv("RELAYDECK_HOME", str(home.parent))
    assert completed("relayer", "show", "--home", str(home), "prod-1") == ["prod-1"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("relayer", "list", "--network"), ["sepolia"]),
        (("relayer", "list", "--signer-id"), ["ops"]),
        (("relayer", "list", "--notification-id"), ["pager"]),
        (("event", "list", "--relayer-id"), ["sepolia-1"]),
        (("event", "deliveries", "--notification-id"), ["pager"]),
        (("token", "create", "ci", "--relayer"), ["sepolia-1"]),
        (("token", "create", "ci", "--network"), ["sepolia"]),
        (("protection", "create", "p", "--relayer"), ["sepolia-1"]),
        (("protection", "create", "p", "--network"), ["sepolia"]),
    ],
)
def test_options_that_name_a_record(
    served: Running, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], found: list[str]
) -> None:
    monkeypatch.setenv("RELAYDECK_HOME", str(served.home))
    assert completed(*words, "") == found


@pytest.mark.parametrize("command", ["show", "replay"])
def test_events_to_deliver(home: Path, served: Running, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """The newest first, as somebody looks for an event that just failed."""
    monkeypatch.setenv("RELAYDECK_HOME", str(served.home))
    done = [served.ask("POST", "/admin/v1/notifications/pager/test").json for _ in range(2)]
    ids = [each["data"]["id"] for each in done]
    assert completed("event", command, "")[:2] == ids[::-1]
    assert completed("event", command, ids[0]) == [ids[0]]
    monkeypatch.setenv("RELAYDECK_HOME", str(home))
    monkeypatch.setenv("RELAYDECK_TOKEN", served.token)
    monkeypatch.setenv("RELAYDECK_URL", f"http://127.0.0.1:{served.port}")
    assert completed("event", command, "")[:2] == ids[::-1]


def test_records_of_a_home_are_bounded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(home, relayers=[relayer(f"r{number}") for number in range(150)])
    monkeypatch.setenv("RELAYDECK_HOME", str(home))
    assert completed("relayer", "show", "") == [f"r{number}" for number in range(100)]


def test_a_home_that_does_not_exist_is_not_made(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYDECK_HOME", str(home))
    assert completed("relayer", "show", "") == []
    assert not home.exists()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("completion") / "home"
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    with Running(home, token=make_token(home, "boss", "--kind", "admin")) as running:
        yield running


def test_records_of_a_server(served: Running, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("RELAYDECK_TOKEN", served.token)
    server = f"http://127.0.0.1:{served.port}"
    assert completed("token", "revoke", "--server", server, "b") == ["boss"]
    monkeypatch.setenv("RELAYDECK_URL", server)
    assert completed("network", "show", "") == ["sepolia"]
    assert completed("signer", "check", "nothing") == []
    monkeypatch.setenv("RELAYDECK_URL", f"http://127.0.0.1:{free_port()}")
    assert completed("network", "show", "") == []
    monkeypatch.delenv("RELAYDECK_TOKEN")
    assert completed("network", "show", "") == []
    assert not home.exists()
