"""Replicas of two versions on one database, under load, do what replicas of one version do.

Several clients make every kind of request, each alternately to the two replicas; events go to a receiver, a monitor
checks relayers, an operator uses the console. Responses, stored state and deliveries are compared with a run of one
version. Earlier versions that cannot run beside this one are fenced off; data of all of them survives an upgrade.
"""

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from relaydeck.store.open_store import open_store_at
from relaydeck.store.sealed_columns import check_all
from tests.console.conftest import Operator
from tests.node.process import running_anvil
from tests.proofs.test_changes import NOTIFICATION, STATE
from tests.support import shapes
from tests.support.places import choose, place_of
from tests.support.postgres import PostgresServer
from tests.support.receiver import Receiver
from tests.support.running import Answer, eventually, free_port
from tests.support.versions import TODAY, RunningVersion, run_version, try_version
from tests.test_end_to_end import TRANSFER

pytestmark = [pytest.mark.prove, pytest.mark.parallel]

BEFORE, FENCED, OLDEST = "bd6df5e0", "9416169", "fb61813"
CLIENTS = 4
WATCHED = 2  # relayers of each client whose balance is below the minimum
KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
SETTINGS = {
    "webhook_allow": "127.0.0.0/8",
    "monitor_interval_seconds": "2",
    "lease_seconds": "3",
    "rate_limit_per_second": "100000",
    "rate_limit_burst": "100000",
    "log_level": "warning",
}
# What the clock, chance or the order of the clients decides, and words that another version has changed.
CHANGED_WORDS = {"unset": ""}  # the version before shows a value that a proposal adds or removes as an empty text
VOLATILE = re.compile(
    r".*_at|at|since|until|start|end|.*time|timestamp|moment|sequence|revision|hash|head|token|milliseconds|instance|"
    r"duration_ms|seconds_old|points|balances?|states|unknown|entries|signer_check|detail|last_used_from"
)
_READ = (
    "export",
    "doctor",
    "runways",
    "audit/head",
    "whoami",
    "find?q=client0",
    "problems",
    "protections",
    "proposals",
)
OF_ALL = [("GET", f"/admin/v1/{path}") for path in _READ]
OF_ALL.append(("POST", "/admin/v1/deliveries/replay"))
_VALUES = ("before", "after")
RESOURCES = ("networks", "signers", "notifications", "relayers", "tokens", "events", "deliveries", "audit")
COMMANDS = (
    ("key", "rotate"),
    ("token", "create", "of-a-command"),
    ("audit", "verify"),
    ("export",),
    ("relayer", "list"),
    ("signer", "list"),
    ("event", "list"),
)
SORTED_BY = (
    "id",
    "name",
    "type",
    "relayer_id",
    "notification_id",
    "actor",
    "action",
    "record",
    "before",
    "after",
    "data",
)
PROGRESS = re.compile(
    r"/deliveries|/balances|/runway|/send"
)  # how far deliveries and the monitor are: compared in the end
PATH = re.compile(r"/hook/client\d-(first|spare|gone)/(path\?key=secret|before\?key=old)")
FENCE = "an older Relaydeck serves this database"
RELAYERS = """
[[relayers]]
id = "one"
name = "One"
network = "dev"
network_type = "evm"
signer_id = "ops"
notification_id = "pager"
custom_rpc_urls = [{ url = "http://127.0.0.1:9/custom?key=k", weight = 3 }]
"""
Said = tuple[str, str, int, Any]
Story = Generator[tuple[str, str, Any], Answer, None]


def story(name: str, hooks: str, node: str) -> Story:
    """Every operation of both interfaces on records of this client."""
    nodes = [{"url": node, "weight": 1}]
    network = {"name": f"{name}-net", "network_type": "evm", "chain_id": 31337, "native_symbol": "ETH"}
    yield "POST", "/admin/v1/networks", network | {"rpc_urls": nodes}
    yield "PATCH", f"/admin/v1/networks/{name}-net", {"rpc_urls": nodes, "max_lag_blocks": 9}
    yield "GET", f"/admin/v1/networks/{name}-net", None
    for kind in shapes.TYPES:
        yield "POST", "/api/v1/signers", shapes.request(kind, id=f"{name}-{kind}")
        yield "GET", f"/admin/v1/signers/{name}-{kind}", None
    yield "POST", "/api/v1/signers", shapes.request("plain", id=f"{name}-plain")
    yield "POST", "/admin/v1/signers", {"id": f"{name}-key", "type": "plain", "config": {"key": KEY}}
    yield "POST", f"/admin/v1/signers/{name}-key/check", None
    yield "GET", "/admin/v1/signer-drivers", None
    yield "PATCH", f"/admin/v1/signers/{name}-key", {"labels": {"team": name}}
    yield from protected(name, network | {"name": f"{name}-kept", "rpc_urls": nodes})
    for hook in ("first", "spare", "gone"):
        webhook = {"id": f"{name}-{hook}", "type": "webhook", "url": f"{hooks}/{name}-{hook}/before?key=old"}
        yield "POST", "/admin/v1/notifications", webhook | {"signing_key": "a key of the first"}
        yield "PATCH", f"/api/v1/notifications/{name}-{hook}", {"url": f"{hooks}/{name}-{hook}/path?key=secret"}
        yield "GET", f"/admin/v1/notifications/{name}-{hook}", None
        yield "POST", f"/admin/v1/notifications/{name}-{hook}/test", None
    yield "PATCH", f"/admin/v1/notifications/{name}-first", {"signing_key": "a key of the second"}
    yield "POST", f"/admin/v1/notifications/{name}-first/send", None
    relayer: dict[str, Any] = {"network": f"{name}-net", "network_type": "evm", "signer_id": f"{name}-key"}
    relayer |= {"notification_id": f"{name}-first", "custom_rpc_urls": nodes}
    policies = {"policies": {"min_balance": 10**24, "gas_price_cap": 10**12}}
    for number in range(3):
        named = {"id": f"{name}-{number}", "name": f"Relayer {number}"}
        yield "POST", "/admin/v1/relayers", relayer | named | (policies if number < WATCHED else {})
    for number in range(3):
        path = f"/admin/v1/relayers/{name}-{number}"
        for change in ("pause", "resume", "pause", "resume"):
            yield "POST", f"{path}/{change}", None
        if number >= WATCHED:  # the monitor may report the others before or after it
            yield "PATCH", path, {"name": f"Renamed {number}"}
        for part in ("", "/why", "/balances", "/runway"):
            yield "GET", path + part, None
    yield "POST", f"/admin/v1/relayers/{name}-0/estimate", {"transaction": TRANSFER}
    params = {"fee_token": "ETH", "network": f"{name}-net", "transaction": TRANSFER}
    call = {"jsonrpc": "2.0", "id": 1, "method": "feeEstimate", "params": params}
    yield "POST", f"/api/v1/relayers/{name}-0/rpc", call
    yield "POST", f"/api/v1/relayers/{name}-none/rpc", call
    yield "POST", "/admin/v1/tokens", {"name": f"{name}-token", "kind": "readonly"}
    yield "POST", f"/admin/v1/tokens/{name}-token/rotate", {}
    yield "DELETE", f"/admin/v1/tokens/{name}-token", None
    yield "POST", "/admin/v1/problems/none/acknowledge", {"note": "known", "until": "4h"}
    yield "POST", "/admin/v1/problems/none/reopen", None
    applied = {"relayers": [relayer | {"id": f"{name}-applied", "name": "Applied"}]}
    yield "POST", "/admin/v1/apply", {"document": applied, "plan_only": True}
    yield "POST", "/admin/v1/apply", {"document": applied}
    yield "DELETE", f"/admin/v1/relayers/{name}-2", None
    yield "DELETE", f"/admin/v1/signers/{name}-provider_d", None
    yield "DELETE", f"/admin/v1/networks/{name}-net", None  # it is in use
    answer = yield "GET", f"/admin/v1/deliveries?notification_id={name}-spare", None
    delivery = answer.json["data"][0]["id"]
    for resource in ("events", "deliveries"):
        yield "GET", f"/admin/v1/{resource}/{delivery}", None
    yield "DELETE", f"/admin/v1/notifications/{name}-gone", None
    yield "POST", f"/admin/v1/deliveries/{delivery}/replay", None


def protected(name: str, network: dict[str, Any]) -> Story:
    """Changes that need two: one is rejected, one forced, and the end of the protection, which protects itself."""
    at, protection = f"/admin/v1/networks/{network['name']}", f"{name}-protection"
    yield "POST", "/admin/v1/networks", network
    scope = {"networks": [network["name"]]}
    yield "POST", "/admin/v1/protections", {"name": protection, "kinds": ["network"], "scope": scope}
    answer = yield "PATCH", at, {"max_lag_blocks": 7}
    proposal = f"/admin/v1/proposals/{answer.json['data']['id']}"
    yield "GET", proposal, None
    yield "POST", f"{proposal}/approve", None  # its author cannot
    yield "POST", f"{proposal}/reject", {"reason": "no"}
    answer = yield "PATCH", at, {"max_lag_blocks": 8}
    yield "POST", f"/admin/v1/proposals/{answer.json['data']['id']}/force", {"reason": "it is urgent"}
    yield "GET", at, None
    answer = yield "DELETE", f"/admin/v1/protections/{protection}", None
    yield "POST", f"/admin/v1/proposals/{answer.json['data']['id']}/force", {"reason": "it is over"}


class Client(threading.Thread):
    """Sends its story to the replicas in turn."""

    def __init__(self, number: int, replicas: list[RunningVersion], hooks: str, node: str) -> None:
        super().__init__(daemon=True)
        self._number, self._replicas = number, replicas
        self._story = story(f"client{number}", hooks, node)
        self.said: list[Said] = []

    def run(self) -> None:
        asked = next(self._story)
        while True:
            method, path, body = asked
            replica = self._replicas[(len(self.said) + self._number) % len(self._replicas)]
            answer = replica.ask(method, path, body)
            body = None if PROGRESS.search(path) else steady(answer.json)
            self.said.append((method, steady(path), answer.status, body))
            try:
                asked = self._story.send(answer)
            except StopIteration:
                return


def steady(value: Any) -> Any:
    """Without what is volatile."""
    if isinstance(value, dict):
        return {name: steady(each) for name, each in value.items() if not VOLATILE.fullmatch(name)}
    if isinstance(value, list) and value and isinstance(value[0], dict) and "step" in value[0]:
        return {each["step"]: steady(each) for each in value}  # a newer version may have more steps
    if isinstance(value, list) and value and isinstance(value[0], dict) and value[0].keys() == {"name", *_VALUES}:
        return {each["name"]: steady(each) for each in value}  # and its records more fields
    if isinstance(value, list):
        return [steady(each) for each in value]
    if isinstance(value, str):
        value = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1", CHANGED_WORDS.get(value, value))
        return re.sub(r"evt_[\w-]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:]+Z", "…", value)
    return value


def differences(part: Any, whole: Any, where: str = "") -> list[str]:
    """Where one differs from the other. A newer version may have more fields."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return [each for name in part for each in differences(part[name], whole.get(name), f"{where}.{name}")]
    if isinstance(part, list | tuple) and isinstance(whole, list | tuple) and len(part) == len(whole):
        pairs = enumerate(zip(part, whole, strict=True))
        return [found for at, pair in pairs for found in differences(*pair, f"{where}[{at}]")]
    return [] if part == whole else [f"{where}: {part!r} and {whole!r}"]


class Outcome(NamedTuple):
    said: list[list[Said]]
    state: dict[str, Any]
    arrived: Counter[tuple[str, str, str]]
    unasked: set[tuple[str, str]]  # operations that every replica has and nobody asked for


def _next(path: str, found: list[Any]) -> str:
    if path in ("events", "deliveries"):
        return f"after={found[-1]['sequence'] if found else 0}"
    return f"page={len(found) // 100 + 1}"


def listed(replica: RunningVersion, path: str) -> list[Any]:
    found: list[Any] = []
    while page := replica.ask("GET", f"/admin/v1/{path}?per_page=100&{_next(path, found)}").json["data"]:
        found += page
        if len(page) < 100:
            break
    return sorted((steady(each) for each in found), key=lambda each: [str(each.get(name)) for name in SORTED_BY])


def state(replica: RunningVersion) -> dict[str, Any]:
    found: dict[str, Any] = {path: listed(replica, path) for path in RESOURCES}
    # The version before does not record when a session of the console is opened.
    found["audit"] = [each for each in found["audit"] if each["action"] != "session.opened"]
    for path in ("/api/v1/signers", "/api/v1/relayers"):
        page = replica.ask("GET", f"{path}?per_page=100").json
        found[path] = sorted((steady(each) for each in page["data"]), key=lambda each: str(each["id"]))
    found["verified"] = steady(replica.ask("GET", "/admin/v1/audit/verify").json)
    found["statuses"] = [(method, path, replica.ask(method, path).status) for method, path in OF_ALL]
    return found


def settled(replica: RunningVersion) -> bool:
    """Every delivery is done, and the monitor has reported each low balance."""
    deliveries = listed(replica, "deliveries")
    low = [each for each in listed(replica, "events") if each["type"] == "relayer.low_balance"]
    return len(low) == WATCHED * CLIENTS and all(each["state"] == "delivered" for each in deliveries)


@contextmanager
def serving(folder: Path, server: PostgresServer, versions: tuple[str, ...]) -> Iterator[list[RunningVersion]]:
    """Replicas on a new database, which the first of them creates."""
    homes = [folder / f"replica-{number}" for number in range(len(versions))]
    name = server.fresh()
    for home in homes:
        choose(home, server.url(name))
    token = run_version(versions[0], homes[0], "token", "create", "root", "--kind", "admin").strip()
    settings = SETTINGS | {"master_key_file": str(homes[0] / "master.key")}
    replicas: list[RunningVersion] = []
    try:
        for version, home in zip(versions, homes, strict=True):
            replicas.append(RunningVersion(version, home, token=token, **settings))
        yield replicas
        assert [replica.stop() for replica in replicas] == [0] * len(replicas), [each.log for each in replicas]
    finally:
        for replica in replicas:
            if replica.process.poll() is None:
                replica.kill()


async def outcome(folder: Path, server: PostgresServer, versions: tuple[str, ...], node: str) -> Outcome:
    receiver = await Receiver().start()
    try:
        with serving(folder, server, versions) as replicas:
            said, found, unasked = await asyncio.to_thread(told, replicas, receiver.url, node)
    finally:
        await receiver.stop()
    place = place_of(replicas[0].home), replicas[0].home / "master.key"
    with closing(open_store_at(folder, *place)) as store, store.database.snapshot():
        assert [each for each in check_all(store.database, store.vault) if each is not None] == []
    arrived = Counter(
        (each.path, each.json["type"], each.json["data"].get("relayer", {}).get("id", "")) for each in receiver.got
    )
    return Outcome(said, found, arrived, unasked)


def told(
    replicas: list[RunningVersion], hooks: str, node: str
) -> tuple[list[list[Said]], dict[str, Any], set[tuple[str, str]]]:
    clients = [Client(number, replicas, hooks, node) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for replica in replicas:  # a session is valid on replicas of one version: see docs/upgrade.md
        assert "Relayers" in Operator(replica.port).sign_in(replica.token).text("/relayers")
    for command in COMMANDS:  # of the new version: an earlier one refuses the schema
        run_version(TODAY, replicas[0].home, *command)
    for client in clients:
        client.join()
    eventually(lambda: all(settled(replica) for replica in replicas))
    found = state(replicas[0])
    assert differences(found, state(replicas[1])) == []
    asked = {*OF_ALL, *(("GET", f"/admin/v1/{path}") for path in (*RESOURCES, "audit/verify"))}
    asked |= {(method, path) for client in clients for method, path, *_ in client.said}
    operations = set.intersection(*map(operations_of, replicas))
    unasked = operations - {operation for each in asked for operation in matching(operations, *each)}
    return [client.said for client in clients], found, unasked


def operations_of(replica: RunningVersion) -> set[tuple[str, str]]:
    paths = replica.ask("GET", "/admin/v1/openapi.json").json["paths"]
    return {(method.upper(), path) for path, operations in paths.items() for method in operations}


def matching(operations: set[tuple[str, str]], method: str, path: str) -> list[tuple[str, str]]:
    """The operations that a request may be of."""
    forms = [(each, re.sub(r"\\{\w+\\}", "[^/]+", re.escape(each[1]))) for each in operations]
    return [each for each, form in forms if each[0] == method and re.fullmatch(form, path.partition("?")[0])]


async def test_two_versions_side_by_side_do_what_one_does(tmp_path: Path, postgres: PostgresServer) -> None:
    with running_anvil() as node:
        one = await outcome(tmp_path / "one", postgres, (TODAY, TODAY), node)
        two = await outcome(tmp_path / "two", postgres, (BEFORE, TODAY), node)
    assert two.unasked == set()
    assert [len(each) for each in one.said] == [len(one.said[0])] * CLIENTS
    assert differences(two.said, one.said) == []
    assert differences(two.state, one.state) == []
    assert two.arrived == one.arrived
    assert [path for path, _, _ in two.arrived if not PATH.fullmatch(path)] == []


def home_of(version: str, folder: Path, server: PostgresServer, hook: str) -> tuple[Path, str]:
    """A home that commands of that version filled, and a token."""
    home = folder / "home"
    choose(home, server.url(server.fresh()))
    state = STATE.format() + NOTIFICATION.format(id="pager", url=f"{hook}/path?key=secret") + RELAYERS
    run_version(version, home, "apply", "-", stdin=state)
    return home, run_version(version, home, "token", "create", "root", "--kind", "admin").strip()


def sent_tests(receiver: Receiver) -> list[str]:
    return [each.path for each in receiver.got if each.json["type"] == "notification.test"]


async def test_a_version_that_would_misread_the_result_is_fenced_off(tmp_path: Path, postgres: PostgresServer) -> None:
    receiver = await Receiver().start()
    home, token = home_of(FENCED, tmp_path, postgres, receiver.url)

    def upgrade() -> None:
        with RunningVersion(FENCED, home, token=token, **SETTINGS) as old:
            for command in (("serve", "--port", str(free_port())), ("db", "migrate"), ("token", "list")):
                refused = try_version(TODAY, home, *command)
                assert (refused.returncode, FENCE in refused.stderr) == (1, True), refused
            assert try_version(TODAY, home, "db", "migrate", "--plan").stdout.endswith("must be stopped first\n")
            assert old.ask("POST", "/admin/v1/notifications/pager/test").status == 201
            eventually(lambda: bool(sent_tests(receiver)))
        with RunningVersion(TODAY, home, token=token, **SETTINGS) as new:
            assert new.ask("POST", "/admin/v1/notifications/pager/test").status == 201
            eventually(lambda: len(sent_tests(receiver)) == 2)

    await asyncio.to_thread(upgrade)
    await receiver.stop()
    assert {each.path for each in receiver.got} == {"/hook/path?key=secret"}


@pytest.mark.parametrize("version", [OLDEST, FENCED, BEFORE])
def test_an_upgrade_by_stop_and_start_keeps_everything(tmp_path: Path, postgres: PostgresServer, version: str) -> None:
    home, token = home_of(version, tmp_path, postgres, "https://hooks.example.com")
    with RunningVersion(version, home, token=token, **SETTINGS | {"monitor_interval_seconds": "0"}) as old:
        for number, kind in enumerate(shapes.TYPES):
            assert old.ask("POST", "/api/v1/signers", shapes.request(kind, id=f"signer-{number}")).status == 201
        assert old.ask("POST", "/admin/v1/relayers/one/pause").status == 200
        before = stored(old)
    head = run_version(version, home, "audit", "head").strip()
    with RunningVersion(TODAY, home, token=token, **SETTINGS | {"monitor_interval_seconds": "0"}) as new:
        assert differences(before, stored(new)) == []
    assert run_version(TODAY, home, "audit", "verify", "--head", head)
    with closing(open_store_at(home, place_of(home), home / "master.key")) as store, store.database.snapshot():
        checked = list(check_all(store.database, store.vault))
        assert (len(checked) > len(shapes.TYPES), [each for each in checked if each is not None]) == (True, [])


def stored(replica: RunningVersion) -> dict[str, Any]:
    paths = ("networks", "signers", "notifications", "relayers", "tokens", "events", "audit")
    return {path: replica.ask("GET", f"/admin/v1/{path}?per_page=100").json["data"] for path in paths}
