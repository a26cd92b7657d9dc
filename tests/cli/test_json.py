"""Every command has `--json` and prints what `docs/reference/json.md` says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from pages.json_output import PAGE, json_options, page, schema_of_shape
from relaydeck.cli.options import JsonOption
from relaydeck.cli.profiles import StoredProfile, read_profiles, save_profile
from tests.conftest import DEMO
from tests.support.fork_server import Done
from tests.support.running import Running, free_port, make_token, run_command

OPTIONS = dict(json_options())
LOCAL = DEMO.replace("https://hooks.example.com/relaydeck", "http://127.0.0.1:9/hook")
TRANSFER = "0x02f283aa36a7808459682f008504a817c80082520894d8da6bf26964af9d7eed9e03e53415d37aa9604587038d7ea4c6800080c0"
NETWORK = ("name=other", "network_type=evm", "chain_id:=5", "native_symbol=ETH")
NOTIFICATION = ("id=other", "type=webhook", "url=http://127.0.0.1:9/x")
RELAYER = ("id=other", "name=Other", "network=sepolia", "network_type=evm", "signer_id=ops")
SIGNER = ("id=other", "type=provider_a_kms", 'config:={"key_id": "alias/x", "region": "eu"}')

# In an order in which each finds what it needs: a command comes after the `create` of its group. {folder} is a folder
# of the test.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "apply": ("-", "--plan"),
    "audit head": (),
    "audit list": (),
    "audit verify": (),
    "backup create": ("{folder}/backup",),
    "backup drill": ("{folder}/backup",),
    "console": (),
    "db migrate": (),
    "db move": ("--to", "sqlite:///{folder}/moved.db"),
    "diagnose": ("{folder}/diagnosis.zip",),
    "doctor": (),
    "estimate": ("sepolia-1", TRANSFER),
    "event list": (),
    "event tail": (),
    "event deliveries": (),
    "event replay": ("--all-dead",),
    "event show": ("{event}",),
    "export": (),
    "find": ("sepolia",),
    "init": ("{folder}/relaydeck.toml",),
    "key rotate": (),
    "network create": NETWORK,
    "network update": ("other", "chain_id:=6"),
    "network list": (),
    "network show": ("other",),
    "network delete": ("other", "--yes"),
    "notification create": NOTIFICATION,
    "notification update": ("other", "url=http://127.0.0.1:9/y"),
    "notification list": (),
    "notification show": ("other",),
    "notification test": ("pager",),
    "notification send": ("pager",),
    "notification delete": ("other", "--yes"),
    "problem list": (),
    "proposal list": (),
    "protection create": ("keys", "--kind", "signer", "--relayer", "none"),
    "protection list": (),
    "relayer create": RELAYER,
    "relayer update": ("other", "name=Another"),
    "relayer list": (),
    "relayer show": ("other",),
    "relayer pause": ("other",),
    "relayer resume": ("other",),
    "relayer why": ("other",),
    "relayer runway": (),
    "relayer delete": ("other", "--yes"),
    "signer create": SIGNER,
    "signer drivers": (),
    "signer list": (),
    "signer show": ("other",),
    "signer update": ("other", "--label", "team=payments"),
    "signer check": ("--all",),
    "signer delete": ("other", "--yes"),
    "token create": ("t1",),
    "token list": (),
    "token rotate": ("t1",),
    "token revoke": ("t1",),
    "whoami": (),
}
# Their output is checked by tests below, or by tests of their own.
APART = {"audit archive", "conform", "demo", "drain", "login", "logout", "problem acknowledge", "problem reopen"}
APART |= {"profile list", "restore", "serve", "protection delete"}
APART |= {f"proposal {each}" for each in ("show", "approve", "reject", "withdraw", "force")}
EXIT_CODES = {"doctor": 1, "estimate": 1}  # the node does not answer


def schema_of(name: str) -> dict[str, Any]:
    option = OPTIONS[f"relaydeck {name}"]
    return schema_of_shape(option.shape, many=option.many)


def validate(name: str, value: Any) -> None:
    jsonschema_rs.Draft202012Validator(closed(schema_of(name))).validate(value)


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """A field that is printed is described."""
    for each in schema["components"]["schemas"].values():
        if "title" in each:
            each["additionalProperties"] = False
    return schema


def as_described(name: str, output: str) -> Any:
    """The value that the shape describes; the page describes the rest in words."""
    if name == "event tail":
        return json.loads(output.splitlines()[-1])
    value = json.loads(output)
    if name == "signer check":
        assert [each.pop("signer_id") for each in value] == ["ops"]
    return value


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home: Path = tmp_path_factory.mktemp("json") / "home"
    assert run_command(home, "apply", "-", stdin=LOCAL).returncode == 0
    return home


@pytest.fixture(scope="module")
def event(home: Path) -> str:
    found: str = json.loads(run_command(home, "notification", "test", "pager", "--json").stdout)["id"]
    return found


@pytest.fixture(scope="module")
def served(home: Path) -> Iterator[Running]:
    """Logs in JSON although its settings say otherwise."""
    token = make_token(home, "root", "--kind", "admin")
    with Running(home, "--json", token=token, log_format="text", monitor_interval_seconds="0") as running:
        yield running


def test_every_command_has_it_and_is_tried() -> None:
    assert {path.removeprefix("relaydeck ") for path in OPTIONS} == set(ARGUMENTS) | APART


def test_every_option_is_called_as_json_so_that_a_command_takes_it() -> None:
    assert all(isinstance(each, JsonOption) and each.name == "as_json" for each in OPTIONS.values())


class Commands:
    """Runs commands on a home, each after the one that creates what it needs.

    Another process may have run that one, and the tests of one process may come in any order.
    """

    def __init__(self, home: Path, event: str) -> None:
        self._home = home
        self._event = event
        self._tried: set[str] = set()

    def run(self, name: str) -> Done:
        creation, deletion = (f"{name.split()[0]} {verb}" for verb in ("create", "delete"))
        if creation in ARGUMENTS and creation != name and creation not in self._tried:
            self.run(creation)
        if name == creation in self._tried and deletion in ARGUMENTS:
            self.run(deletion)
        self._tried.add(name)
        if name == deletion:
            self._tried.discard(creation)
        folder = str(self._home.parent)
        given = [each.replace("{folder}", folder).replace("{event}", self._event) for each in ARGUMENTS[name]]
        return run_command(self._home, *name.split(), *given, "--json", stdin=LOCAL if name == "apply" else "")


@pytest.fixture(scope="module")
def commands(home: Path, event: str) -> Commands:
    return Commands(home, event)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_it_prints_what_the_page_says(commands: Commands, name: str) -> None:
    done = commands.run(name)
    assert done.returncode == EXIT_CODES.get(name, 0), done.stderr
    validate(name, as_described(name, done.stdout))


def test_restore(home: Path, tmp_path: Path) -> None:
    run_command(home, "token", "create", "me")
    run_command(home, "backup", str(tmp_path / "backup"))
    done = run_command(tmp_path / "restored", "restore", "--unauthenticated", str(tmp_path / "backup"), "--json")
    validate("restore", json.loads(done.stdout))


def test_apply_prints_what_it_did(tmp_path: Path) -> None:
    report = json.loads(run_command(tmp_path / "home", "apply", "-", "--json", stdin=LOCAL).stdout)
    assert report.pop("revision").startswith("0-")
    signer = [{"name": "type", "before": "", "after": "plain"}]
    assert report == {
        "applied": True,
        "steps": [
            {"action": "create", "kind": "network", "name": "sepolia", "fields": []},
            {"action": "create", "kind": "signer", "name": "ops", "fields": signer},
            {"action": "create", "kind": "notification", "name": "pager", "fields": []},
            {"action": "create", "kind": "relayer", "name": "sepolia-1", "fields": []},
        ],
        "notes": [
            "notifications[0].url leads to an address that is not public: the service sends events there only if its"
            " RELAYDECK_WEBHOOK_ALLOW allows the address"
        ],
    }


def test_a_failure_is_an_error_beside_no_output(home: Path) -> None:
    done = run_command(home, "relayer", "delete", "nobody", "--yes", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("relaydeck: Relayer with ID nobody not found\n")


def test_login_profiles_and_logout(
    home: Path, served: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    url = f"http://127.0.0.1:{served.port}"
    for name, arguments in {"login": (url,), "profile list": (), "logout": ()}.items():
        done = run_command(tmp_path / "none", *name.split(), *arguments, "--json", token=served.token)
        assert done.returncode == 0, done.stderr
        validate(name, json.loads(done.stdout))


def test_logout_removes_a_profile_whose_server_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    save_profile("default", StoredProfile(f"http://127.0.0.1:{free_port()}", "p-session"))
    done = run_command(tmp_path / "none", "logout")
    assert (done.returncode, read_profiles()) == (1, {})
    assert done.stderr.startswith("relaydeck: the profile was removed, but its session could not be ended: http://127.")
    assert done.stderr.endswith("The session ends by itself when it is not used.\n")


def test_conform(served: Running, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{served.port}"
    done = run_command(tmp_path, "conform", url, "--section", "5", "--json", token=served.token)
    validate("conform", json.loads(done.stdout))
    assert done.stderr == ""


def test_serve_logs_in_json(served: Running) -> None:
    assert served.ask("GET", "/healthz").status == 200
    lines = [json.loads(line) for line in served.log.splitlines()]
    assert "serving" in [line.get("event") for line in lines]
    schema = schema_of("serve")
    jsonschema_rs.Draft202012Validator(schema).validate(next(line for line in lines if line.get("event") == "serving"))


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `make docs`"
