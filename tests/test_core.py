"""`relaydeck serve --core`: the five operations and health, and nothing else."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DEMO
from tests.support.running import (
    Running,
    ask,
    children,
    clean_environment,
    eventually,
    free_port,
    make_token,
    run_command,
)
from tests.support.verifying import verifying_receiver

NOT_FOUND = {"data": None, "message": "Not Found", "success": False}
# An unsigned transfer on the chain of the demo.
TRANSACTION = "0x02f183aa36a780843b9aca0084773594008252089470997970c51812dc3a010c7d01b50e0d17dc79c887038d7ea4c6800080c0"
OPERATIONS: list[tuple[str, str, Any, int]] = [
    ("GET", "/api/v1/signers", None, 200),
    ("POST", "/api/v1/signers", {"type": "plain", "config": {"key": "0x" + "11" * 32}}, 201),
    ("GET", "/api/v1/relayers", None, 200),
    ("PATCH", "/api/v1/notifications/pager", {"url": "https://hooks.example.com/other"}, 200),
    (
        "POST",
        "/api/v1/relayers/sepolia-1/rpc",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "feeEstimate",
            "params": {"fee_token": "ETH", "network": "sepolia", "transaction": TRANSACTION},
        },
        200,
    ),
]
# Starts `relaydeck` with a signal that makes each of its processes write the names of its modules to a file.
SHOW_MODULES = """
import os, signal, sys
def show(*_):
    with open(f"{os.environ['MODULES']}/part", "w") as file:
        file.write(" ".join(sys.modules))
    os.rename(file.name, f"{os.environ['MODULES']}/all")
signal.signal(signal.SIGUSR2, show)
from relaydeck.cli import main
main()
"""
# The core loads no more than this: whole packages, and of others only these modules.
WHOLE = {"fees", "http", "networks", "store"}
PARTS = {
    "api": {"list_filters", "operation", "wire"},
    "cli": {
        *("commands", "home", "options", "output", "reply", "serve", "server", "target"),
    },
    "contract": {"operations", "rpc"},
    "credentials": {"token_cache", "grants", "tokens"},
    "notifications": {"delivery_queue", "events", "model", "notification_changes", "webhook_rule"},
    "relayers": {"directory", "model", "relayer_rows"},
    "signers": {"signer_changes", "signer_types"},
    "worker": {"app", "core_worker", "health_routes", "housekeeping", "reports"},
}
FOR_OTHERS = {"jinja2", "jwt", "segno", "rich", "redis", "opentelemetry", "botocore"}
ROOT = {path.stem for path in (Path(__file__).parents[1] / "src" / "relaydeck").glob("*.py")}
BASICS = ROOT | {"settings", "outgoing", "process"}


class Watched(Running):
    """Started as an operator starts it, without the modules that the fork server of the tests has loaded."""

    def __init__(self, home: Path, *arguments: str, token: str, folder: Path) -> None:
        self.home, self.port, self.token, self.folder = home, free_port(), token, folder
        self.log_path = folder / "log"
        environment = clean_environment(home) | {"MODULES": str(folder)}
        command = [sys.executable, "-c", SHOW_MODULES, "serve", "--port", str(self.port), *arguments]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        self.await_answer()

    def modules(self) -> set[str]:
        """Those of the worker."""
        (worker,) = (each for each in children(self.process.pid) if b"resource_tracker" not in _command(each))
        os.kill(worker, signal.SIGUSR2)
        eventually((self.folder / "all").exists)
        return set((self.folder / "all").read_text().split())


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def is_of_the_core(module: str) -> bool:
    package, _, name = module.partition(".")
    if package in PARTS:
        return not name or name in PARTS[package]
    return package in WHOLE or package in BASICS


def applied(home: Path, file: str = DEMO) -> Path:
    done = run_command(home, "apply", "-", stdin=file)
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = applied(tmp_path_factory.mktemp("core") / "home")
    with Running(home, "--core", token=make_token(home, "tests", "--kind", "admin")) as running:
        yield running


@pytest.mark.parametrize(("method", "path", "body", "status"), OPERATIONS, ids=[each[1] for each in OPERATIONS])
def test_each_of_the_five_operations_is_served(core: Running, method: str, path: str, body: Any, status: int) -> None:
    assert core.ask(method, path, body).status == status
    assert core.ask(method, path, body, token="unknown").status == 401


@pytest.mark.parametrize(
    ("path", "text"), [("/healthz", b"ok\n"), ("/readyz", b"ready\n"), ("/writez", b"writes work\n")]
)
def test_health_is_served(core: Running, path: str, text: bytes) -> None:
    eventually(lambda: core.ask("GET", "/writez", token="").status == 200)
    answer = core.ask("GET", path, token="")
    assert (answer.status, answer.body) == (200, text)


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/console", "/console/enter?code=x", "/console/assets/console.css"),
        *("/admin/v1/relayers", "/admin/v1/openapi.json", "/admin/v1/docs"),
        *("/metrics", "/openapi.json", "/docs", "/api/v1/tokens"),
    ],
)
def test_anything_else_is_an_unknown_path(core: Running, path: str) -> None:
    answer = core.ask("GET", path)
    assert (answer.status, answer.headers["content-type"], answer.json) == (404, "application/json", NOT_FOUND)


def test_nothing_outside_the_core_is_loaded(tmp_path: Path) -> None:
    home = applied(tmp_path / "home")
    with Watched(home, "--core", token=make_token(home, "tests"), folder=tmp_path) as core:
        answers = [core.ask(method, path, body) for method, path, body, _ in OPERATIONS]
        loaded = core.modules()
    assert [answer.status for answer in answers] == [status for *_, status in OPERATIONS]
    assert answers[-1].json["error"]["message"] == "Node unreachable"
    own = {name.removeprefix("relaydeck.") for name in loaded if name.startswith("relaydeck.")}
    assert {name for name in own if not is_of_the_core(name)} == set()
    assert {name.partition(".")[0] for name in loaded} & FOR_OTHERS == set()
    assert {"contract.rpc", "fees.estimator", "worker.core_worker"} <= own


def test_the_picture_of_the_core_shows_what_it_may_load() -> None:
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text("utf-8")
    picture = page.partition("## The core\n")[2].split("```")[1]
    assert set(re.findall(r"(\w+)/", picture)) == WHOLE | PARTS.keys() - {"cli", "worker"}


def test_the_whole_service_is_told_apart(tmp_path: Path) -> None:
    """The test above could find what it looks for."""
    home = applied(tmp_path / "home")
    with Watched(home, token=make_token(home, "tests", "--kind", "admin"), folder=tmp_path) as service:
        assert [service.ask("GET", path).status for path in ("/admin/v1/relayers", "/console")] == [200, 303]
        loaded = service.modules()
    outside = {name for name in loaded if name.startswith("relaydeck.") and not is_of_the_core(name[10:])}
    assert {f"relaydeck.{name}" for name in ("admin.api", "console.console", "worker.worker")} <= outside
    assert loaded & FOR_OTHERS >= {"jinja2"}


def test_a_write_has_its_entry_in_the_audit_log(home: Path) -> None:
    applied(home)
    with Running(home, "--core", token=make_token(home, "writer")) as core:
        updated = core.ask("PATCH", "/api/v1/notifications/pager", {"signing_key": ""})
    assert updated.json["data"]["has_signing_key"] is False
    newest = json.loads(run_command(home, "audit", "list", "--limit", "1", "--json").stdout)[0]
    assert (newest["action"], newest["actor"], newest["record"]) == ("notification.updated", "token:writer", "pager")
    assert run_command(home, "audit", "verify").returncode == 0


def test_the_rate_limit_applies(home: Path) -> None:
    with Running(
        home, "--core", token=make_token(home, "tests"), rate_limit_per_second="1", rate_limit_burst="1"
    ) as core:
        statuses = {core.ask("GET", "/api/v1/relayers").status for _ in range(20)}
    assert statuses == {200, 429}


def test_what_is_recorded_while_the_core_runs_is_delivered_by_the_next_whole_service(home: Path) -> None:
    with verifying_receiver() as receiver:
        applied(home, DEMO.replace("https://hooks.example.com/relaydeck", receiver.url))
        with Running(home, "--core", webhook_allow="127.0.0.0/8"):
            assert run_command(home, "relayer", "pause", "sepolia-1").returncode == 0
        (waiting,) = json.loads(run_command(home, "event", "deliveries", "--json").stdout)
        assert (waiting["state"], waiting["tries"]) == ("pending", 0)
        with Running(home, webhook_allow="127.0.0.0/8"):
            assert receiver.next()["type"] == "relayer.paused"


def test_it_serves_callers_beside_a_whole_service(home: Path, lend: Callable[[Path, str], Path]) -> None:
    applied(lend(home, "postgresql"))
    token = make_token(home, "tests", "--kind", "admin")
    with Running(home, token=token) as service, Running(home, "--core", token=token) as core:
        paused = service.ask("POST", "/admin/v1/relayers/sepolia-1/pause")
        headers = {"Relaydeck-Min-Revision": paused.headers["relaydeck-revision"]}
        (shown,) = core.ask("GET", "/api/v1/relayers", headers=headers).json["data"]
        assert (paused.status, shown["paused"]) == (200, True)
        assert [core.ask(method, path, body).status for method, path, body, _ in OPERATIONS] == [
            status for *_, status in OPERATIONS
        ]


def test_the_core_needs_no_driver(home: Path) -> None:
    with Running(home, "--core", driver_provider_a_kms="planted") as core:
        assert core.ask("GET", "/readyz").status == 200


def test_a_setting_chooses_it_and_health_may_have_a_port_of_its_own(home: Path) -> None:
    port = free_port()
    with Running(home, core="on", operations_address=f"127.0.0.1:{port}") as core:
        eventually(lambda: _status(port, "/readyz") == 200)
        assert [core.ask("GET", path).status for path in ("/healthz", "/readyz", "/console")] == [404, 404, 404]
        assert [_status(port, path) for path in ("/healthz", "/metrics", "/docs", "/openapi.json")] == [
            200,
            404,
            404,
            404,
        ]


def _status(port: int, path: str) -> int:
    try:
        return ask(port, "GET", path).status
    except OSError:
        return 0


def test_there_is_no_link_to_its_console(home: Path) -> None:
    done = run_command(home, "console", core="on")
    told = "relaydeck: the core has no console\nRemove RELAYDECK_CORE=on and start the service again.\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)


def test_it_conforms(core: Running) -> None:
    """What the kit can check here without options: `relaydeck conform` exits with 3 when a check was not made."""
    given = ("--allow-writes", "--notification", "pager", "--replace-signing-key")
    sections = ("--section", "4.1", "--section", "4.2", "--section", "4.3")
    done = run_command(core.home, "conform", f"http://127.0.0.1:{core.port}", *given, *sections, token=core.token)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
