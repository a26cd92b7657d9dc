"""A team moves in. Every admin operation and every command there is, over real sockets, in one story.

At its end it compares what it used with the admin API's own description and with the commands that can be typed:
whatever is added to either and not to the story makes it fail.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from relaydeck.cli.commands import cli
from tests.admin.conftest import timeless
from tests.node.process import HARDHAT, running
from tests.support.running import Running, run_command
from tests.support.verifying import KEY, VerifyingReceiver, verifying_receiver

TRANSFER = "0x02f0827a6980843b9aca0084773594008252089470997970c51812dc3a010c7d01b50e0d17dc79c887038d7ea4c6800080c0"
FILE = """
[networks.local]
network_type = "evm"
chain_id = 31337
native_symbol = "ETH"
rpc_urls = [{{ url = "{node}", weight = 1 }}]

[[signers]]
id = "ops"
type = "plain"
config = {{ key = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80" }}

[[notifications]]
id = "pager"
type = "webhook"
url = "{hook}"
signing_key = "{key}"

[[relayers]]
id = "local-1"
name = "Local one"
network = "local"
network_type = "evm"
signer_id = "ops"
notification_id = "pager"
"""
COLD_ADDRESS = "0x5CbDd86a2FA8Dc4bDdd8a8f69dBa48572EeC07FB"
ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
POLICIES = {
    "eip1559_pricing": True,
    "gas_limit_estimation": True,
    "min_balance": 0,
    "private_transactions": False,
    "whitelist_receivers": [],
}
RELAYER = {
    "id": "local-1",
    "name": "Local one",
    "network": "local",
    "network_type": "evm",
    "address": ADDRESS,
    "signer_id": "ops",
    "notification_id": "pager",
    "paused": False,
    "system_disabled": False,
    "custom_rpc_urls": [],
    "policies": POLICIES,
}


class Team:
    """Asks and types, and remembers what: operations as the document spells them, commands word by word."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.token = ""
        self.asked: set[tuple[str, str]] = set()
        self.typed: set[str] = set()

    @contextmanager
    def served(self) -> Iterator[None]:
        self.typed.add("serve")
        with Running(self.home, "--workers", "2", token=self.token, webhook_allow="127.0.0.0/8") as self.running:
            yield

    def ask(
        self, method: str, path: str, name: str = "", *, body: Any = None, status: int = 200, query: str = ""
    ) -> Any:
        """The data of an answer, without times. `name` goes where the path says `{id}`."""
        self.asked.add((method.lower(), f"/admin/v1/{path}"))
        target = f"/admin/v1/{path.replace('{id}', name)}{query}"
        answer = self.running.ask(method, target, body)
        assert answer.status == status, answer.body
        assert (answer.json["success"], answer.json["error"]) == (True, "")
        return timeless(answer.json["data"])

    def type(self, *words: str, stdin: str = "", **settings: str) -> str:
        """A command's standard output or, if that is empty, its standard error."""
        self.typed.add(command_of(words))
        done = run_command(self.home, *words, stdin=stdin, **settings)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout or done.stderr

    def read(self, *words: str) -> Any:
        return timeless(json.loads(self.type(*words, "--json")))

    def await_state(self, delivery: str, state: str) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while True:
            found: dict[str, Any] = self.ask("GET", "deliveries/{id}", delivery)
            if found["state"] == state:
                return found
            assert time.monotonic() < deadline, found


def command_of(words: tuple[str, ...]) -> str:
    command: click.Command = cli
    found = []
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word) or command
        found.append(word)
    return " ".join(found)


def every_command(group: click.Group = cli, prefix: str = "") -> set[str]:
    found: set[str] = set()
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.commands[name]
        if isinstance(command, click.Group):
            found |= every_command(command, f"{prefix}{name} ")
        elif not command.hidden:
            found.add(prefix + name)
    return found


def every_operation(team: Team) -> set[tuple[str, str]]:
    document = team.running.ask("GET", "/admin/v1/openapi.json").json
    return {(method, path) for path, methods in document["paths"].items() for method in methods}


def test_everything_there_is_in_one_story(home: Path) -> None:
    team = Team(home)
    with running(HARDHAT) as node, verifying_receiver() as receiver:
        they_describe_what_they_have(team, FILE.format(node=node, hook=receiver.url, key=KEY))
        with team.served():
            they_manage_it_over_http(team)
            they_manage_it_with_commands(team)
            they_let_others_in(team)
            they_pause_and_resume(team, receiver)
            they_test_the_receiver(team, receiver)
            they_send_again_what_was_given_up(team, receiver)
            they_take_care_of_a_problem(team, receiver)
            they_replace_keys(team, receiver)
            they_ask_what_it_costs_and_whether_all_is_well(team)
            they_look_ahead(team)
            they_need_two(team)
            they_look_back(team)
            they_keep_a_copy(team)
            assert team.asked == every_operation(team)
        they_move_out(team)
    # These have tests of their own.
    apart = {"audit archive", "conform", "demo", "diagnose", "drain", "init", "login", "logout", "profile list"}
    assert team.typed | apart == every_command()


def they_describe_what_they_have(team: Team, file: str) -> None:
    made = "1 network, 1 signer, 1 notification, 1 relayer"
    assert made in team.type("apply", "-", "--plan", stdin=file)
    assert team.type("apply", "-", stdin=file) == f"created: {made}\n"
    exported = team.type("export")
    assert 'signer_id = "ops"' in exported and "ac0974" not in exported and KEY not in exported
    team.token = team.type("token", "create", "root", "--kind", "admin").strip()


def they_manage_it_over_http(team: Team) -> None:
    assert [each["name"] for each in team.ask("GET", "networks")] == ["local"]
    network = {"name": "spare", "network_type": "evm", "chain_id": 5, "native_symbol": "ETH"}
    assert team.ask("POST", "networks", body=network, status=201)["chain_id"] == 5
    assert team.ask("PATCH", "networks/{id}", "spare", body={"native_symbol": "GOR"})["native_symbol"] == "GOR"
    assert team.ask("GET", "networks/{id}", "spare")["native_symbol"] == "GOR"

    assert team.ask("GET", "export")["toml"] == team.type("export")
    declared = {"document": {"networks": {"spare": {name: each for name, each in network.items() if name != "name"}}}}
    (step,) = team.ask("POST", "apply", body=declared)["steps"]
    assert step["fields"] == [{"name": "native_symbol", "before": "GOR", "after": "ETH"}]

    signer = {"id": "cold", "type": "plain", "config": {"key": "0x" + "33" * 32}}
    shown: dict[str, object] = {"id": "cold", "type": "local", "config": {}, "check": None}
    assert team.ask("POST", "signers", body=signer, status=201) == shown
    assert team.ask("GET", "signers/{id}", "cold") == shown
    labelled = shown | {"labels": {"team": "payments"}}
    assert team.ask("PATCH", "signers/{id}", "cold", body={"labels": {"team": "payments"}}) == labelled
    assert team.ask("PATCH", "signers/{id}", "cold", body={"labels": {"team": None}}) == shown
    assert [each["id"] for each in team.ask("GET", "find", query="?text=col")] == ["cold"]
    assert [each["id"] for each in team.ask("GET", "signers")] == ["ops", "cold"]
    assert team.ask("GET", "signer-drivers") == [{"type": "plain", "driver": "local"}]
    check = team.ask("POST", "signers/{id}/check", "cold")
    assert (check["outcome"], check["address"]) == ("ok", COLD_ADDRESS)

    chat = {"id": "chat", "type": "webhook", "url": "https://hooks.example.com/x"}
    assert team.ask("POST", "notifications", body=chat, status=201) == chat | {"has_signing_key": False}
    keyed = chat | {"has_signing_key": True}
    assert team.ask("PATCH", "notifications/{id}", "chat", body={"signing_key": "a key"}) == keyed
    assert team.ask("GET", "notifications/{id}", "chat") == keyed
    assert [each["id"] for each in team.ask("GET", "notifications")] == ["pager", "chat"]

    second = {"id": "second", "name": "Second", "network": "spare", "network_type": "evm", "signer_id": "cold"}
    created = team.ask("POST", "relayers", body=second, status=201)
    untold = {name: value for name, value in RELAYER.items() if name != "notification_id"}
    assert created == untold | second | {"address": COLD_ADDRESS}
    patched = team.ask("PATCH", "relayers/{id}", "second", body={"notification_id": "chat"})
    assert patched == created | {"notification_id": "chat"} == team.ask("GET", "relayers/{id}", "second")
    assert team.ask("GET", "relayers") == [RELAYER, patched]

    for path, name in (("relayers", "second"), ("notifications", "chat"), ("signers", "cold"), ("networks", "spare")):
        assert team.ask("DELETE", f"{path}/{{id}}", name) is None


def they_manage_it_with_commands(team: Team) -> None:
    network = ("name=spare", "network_type=evm", "chain_id:=5", "native_symbol=ETH")
    assert team.type("network", "create", *network) == "created network spare\n"
    assert team.read("network", "update", "spare", "native_symbol=GOR")["native_symbol"] == "GOR"
    assert team.read("signer", "create", "id=cold", "type=plain", f"config.key=0x{'33' * 32}")["id"] == "cold"
    assert team.read("signer", "check", "cold")[0]["outcome"] == "ok"
    assert team.read("signer", "update", "cold", "--label", "team=payments")["labels"] == {"team": "payments"}
    assert [each["id"] for each in team.read("find", "col")] == ["cold"]
    assert team.read("signer", "drivers") == team.ask("GET", "signer-drivers")
    chat = ("id=chat", "type=webhook", "url=https://hooks.example.com/x")
    assert team.type("notification", "create", *chat) == "created notification chat\n"
    assert team.read("notification", "update", "chat", "signing_key=a key")["has_signing_key"] is True
    second = ("id=second", "name=Second", "network=spare", "network_type=evm", "signer_id=cold")
    assert team.type("relayer", "create", *second) == "created relayer second\n"
    assert team.read("relayer", "update", "second", "notification_id=chat")["notification_id"] == "chat"

    for kind, name in (("relayer", "second"), ("notification", "chat"), ("signer", "cold"), ("network", "spare")):
        # Written by a command, shown by the service: there is one truth.
        shown = team.ask("GET", f"{kind}s/{{id}}", name)
        assert team.read(kind, "show", name) == shown
        assert shown in team.read(kind, "list")
        assert team.type(kind, "delete", name, "--yes") == f"deleted {kind} {name}\n"


def they_let_others_in(team: Team) -> None:
    issued = team.ask("POST", "tokens", body={"name": "dashboard", "kind": "readonly"}, status=201)
    assert team.running.ask("GET", "/api/v1/relayers", token=issued["token"]).json["data"] == [RELAYER]
    assert [each["name"] for each in team.ask("GET", "tokens")] == ["root", "dashboard"]
    assert team.ask("GET", "whoami")["actor"] == "token:root"
    rotated = team.ask("POST", "tokens/{id}/rotate", "dashboard", body={})
    assert team.running.ask("GET", "/api/v1/relayers", token=issued["token"]).status == 401
    issued = rotated
    assert team.ask("DELETE", "tokens/{id}", "dashboard") is None
    assert team.running.ask("GET", "/api/v1/relayers", token=issued["token"]).status == 401
    typed = team.type("token", "create", "ci", "--kind", "readonly").strip()
    assert team.running.ask("GET", "/api/v1/signers", token=typed).status == 200
    assert team.running.ask("GET", "/api/v1/signers", token=team.type("token", "rotate", "ci").strip()).status == 200
    assert team.running.ask("GET", "/api/v1/signers", token=typed).status == 401
    assert "owner" in team.type("whoami") or "admin" in team.type("whoami")
    assert team.type("token", "revoke", "ci") == "revoked ci\n"
    assert team.running.ask("GET", "/api/v1/signers", token=typed).status == 401
    # Those that were rotated are listed twice: the secret before is a revoked token.
    assert [each["name"] for each in team.read("token", "list")] == ["root", "dashboard", "dashboard", "ci", "ci"]


def they_pause_and_resume(team: Team, receiver: VerifyingReceiver) -> None:
    assert team.ask("POST", "relayers/{id}/pause", "local-1") == RELAYER | {"paused": True}
    paused = receiver.next()
    assert (paused["type"], paused["sequence"]) == ("relayer.paused", 1)
    assert paused["data"] == {"relayer": RELAYER | {"paused": True}}
    assert team.ask("GET", "events/{id}", paused["id"]) == paused
    assert team.ask("POST", "relayers/{id}/resume", "local-1") == RELAYER
    resumed = receiver.next()
    assert (resumed["type"], resumed["sequence"], resumed["data"]) == ("relayer.resumed", 2, {"relayer": RELAYER})
    assert team.type("relayer", "pause", "local-1") == "paused relayer local-1\n"
    assert team.ask("GET", "relayers/{id}/balances", "local-1")["top_ups"] == []
    assert team.ask("GET", "relayers/{id}/runway", "local-1")["warn_hours"] == 24
    assert team.ask("GET", "runways") == {"runways": []}
    assert team.read("relayer", "runway", "local-1")["runway"]["warn_hours"] == 24
    asked, typed = team.ask("GET", "relayers/{id}/why", "local-1"), team.read("relayer", "why", "local-1")
    assert [each["state"] for each in asked["states"]] == [each["state"] for each in typed["states"]] == ["paused"]
    assert team.type("relayer", "resume", "local-1") == "resumed relayer local-1\n"
    assert [receiver.next()["type"], receiver.next()["type"]] == ["relayer.paused", "relayer.resumed"]
    assert (
        team.ask("GET", "events")[:2]
        == [paused, resumed]
        == team.read("event", "list", "--order", "oldest", "--limit", "2")
    )
    assert team.type("event", "tail", "--limit", "1").endswith(team.ask("GET", "events")[-1]["id"] + "\n")


def they_test_the_receiver(team: Team, receiver: VerifyingReceiver) -> None:
    event = team.ask("POST", "notifications/{id}/test", "pager", status=201)
    assert receiver.next() == event
    assert event["data"] == {"notification_id": "pager"}
    assert team.read("notification", "test", "pager") == receiver.next()
    assert team.ask("POST", "notifications/{id}/send", "pager") == {"replayed": 0}
    assert team.read("notification", "send", "pager") == {"replayed": 0}


def they_send_again_what_was_given_up(team: Team, receiver: VerifyingReceiver) -> None:
    again: dict[str, Any] = {
        "asked": lambda name: team.ask("POST", "deliveries/{id}/replay", name)["state"] == "pending",
        "all asked": lambda _: team.ask("POST", "deliveries/replay") == {"replayed": 1},
        "typed": lambda name: team.type("event", "replay", name).startswith(f"scheduled {name}"),
        "all typed": lambda _: team.type("event", "replay", "--all-dead") == "scheduled 1 dead delivery again\n",
    }
    for how, send in again.items():
        receiver.status = 410
        event = team.ask("POST", "notifications/{id}/test", "pager", status=201)
        assert receiver.next() == event
        dead = team.await_state(event["id"], "dead")
        assert [(each["status"], each["problem"]) for each in dead["attempts"]] == [(410, None)]
        assert team.read("event", "show", event["id"]) == dead
        assert [each["id"] for each in team.ask("GET", "deliveries", query="?state=dead")] == [event["id"]], how
        receiver.status = 204
        assert send(event["id"])
        assert receiver.next() == event
        team.await_state(event["id"], "delivered")
    assert team.read("event", "deliveries", "--state", "dead") == []
    logged = team.ask("GET", "audit", query="?action=deliveries.replayed")
    assert [each["after"] for each in logged] == [{"count": 1}, {"count": 1}]


def they_take_care_of_a_problem(team: Team, receiver: VerifyingReceiver) -> None:
    receiver.status = 410
    event = team.ask("POST", "notifications/{id}/test", "pager", status=201)
    assert receiver.next() == event
    team.await_state(event["id"], "dead")
    (problem,) = team.ask("GET", "problems")
    assert (problem["state"], problem["records"]) == ("receiver_failing", [{"id": "pager", "name": "pager"}])
    known = team.ask("POST", "problems/{id}/acknowledge", problem["id"], body={"note": "told them", "until": "4h"})
    assert (known["acknowledgement"]["note"], known["acknowledgement"]["by"]) == ("told them", "token:root")
    assert team.read("problem", "list") == [known]
    assert team.ask("POST", "problems/{id}/reopen", problem["id"]) == problem
    assert (
        team.read("problem", "acknowledge", problem["id"], "told them", "4h")["acknowledgement"]["note"] == "told them"
    )
    assert team.read("problem", "reopen", problem["id"]) == problem
    receiver.status = 204
    team.ask("POST", "deliveries/{id}/replay", event["id"])
    assert receiver.next() == event
    team.await_state(event["id"], "delivered")
    assert team.ask("GET", "problems") == []


def they_replace_keys(team: Team, receiver: VerifyingReceiver) -> None:
    team.ask("PATCH", "notifications/{id}", "pager", body={"signing_key": "whsec_bmV3ZXIgdGhhbiB0aGUgb2xkIG9uZQ=="})
    assert team.type("key", "rotate") == "sealed 6 values with a new data key; removed 1 old data key\n"
    for key in (KEY, "whsec_bmV3ZXIgdGhhbiB0aGUgb2xkIG9uZQ=="):  # both sign, for a day
        receiver.key = key
        assert team.ask("POST", "notifications/{id}/test", "pager", status=201) == receiver.next()


def they_ask_what_it_costs_and_whether_all_is_well(team: Team) -> None:
    steps = {step["step"]: step for step in team.read("estimate", "local-1", TRANSFER)["steps"]}
    fee = int(steps["gas"]["gas"]) * int(steps["price"]["used_per_gas_wei"])
    params = {"fee_token": "ETH", "network": "local", "transaction": TRANSFER}
    call = {"jsonrpc": "2.0", "id": 1, "method": "feeEstimate", "params": params}
    answer = team.running.ask("POST", "/api/v1/relayers/local-1/rpc", call).json
    assert float(answer["result"]["estimated_fee"]) * 10**18 == fee
    asked = team.ask("POST", "relayers/{id}/estimate", "local-1", body={"transaction": TRANSFER})
    assert [step["step"] for step in asked["steps"]] == list(steps)
    lines = team.type("doctor").splitlines()
    assert {line.split()[0] for line in lines} == {"ok"}, lines
    assert [each["subject"] for each in team.ask("GET", "doctor")] == [line[6:].partition(": ")[0] for line in lines]


def they_look_ahead(team: Team) -> None:
    assert team.read("relayer", "runway") == team.ask("GET", "runways")["runways"]
    assert team.type("console").startswith("http://127.0.0.1:8080/console/enter?code=")


def they_need_two(team: Team) -> None:
    """What one proposes, another decides: with a token that neither the author made nor who made the author's."""
    team.ask("POST", "protections", body={"name": "cold", "kinds": ["signer"]}, status=201)
    assert [each["name"] for each in team.read("protection", "list")] == ["cold"]
    assert team.ask("GET", "protections") == team.read("protection", "list")
    owners = [{"name": name, "kind": "owner"} for name in ("author", "approver")]
    author, approver = (team.ask("POST", "tokens", body=each, status=201)["token"] for each in owners)
    team.token, team.running.token = approver, author
    at = {"url": f"http://127.0.0.1:{team.running.port}", "token": approver}
    found = []
    for number in range(7):
        signer = {"id": f"cold-{number}", "type": "plain", "config": {"key": f"0x{'33' * 32}"}}
        found.append(team.ask("POST", "signers", body=signer, status=202)["id"])
    found.append(team.ask("DELETE", "protections/{id}", "cold", status=202)["id"])
    assert [each["id"] for each in team.ask("GET", "proposals", query="?state=open")] == found
    assert [each["id"] for each in team.read("proposal", "list")] == found[::-1]
    assert team.ask("GET", "proposals/{id}", found[0]) == team.read("proposal", "show", found[0])
    assert team.type("proposal", "approve", found[0], **at) == f"applied proposal {found[0]}\n"
    assert team.type("proposal", "reject", found[1], "not now", **at) == f"rejected proposal {found[1]}\n"
    assert team.type("proposal", "force", found[2], "at night", **at) == f"forced proposal {found[2]}\n"
    team.ask("POST", "proposals/{id}/force", found[3], body={"reason": "at night"})
    team.ask("POST", "proposals/{id}/withdraw", found[5])
    assert team.type("proposal", "withdraw", found[6], **at | {"token": author}) == f"withdrew proposal {found[6]}\n"
    team.running.token = approver
    team.ask("POST", "proposals/{id}/reject", found[4], body={"reason": "enough"})
    assert team.ask("POST", "proposals/{id}/approve", found[7])["state"] == "applied"
    assert team.type("protection", "create", "keys", "--relayer", "none") == "created protection keys\n"
    team.typed.add("protection delete")  # it needs approval, too


def they_look_back(team: Team) -> None:
    entries = team.ask("GET", "audit", query="?per_page=1000")
    assert [each["sequence"] for each in entries] == list(range(1, len(entries) + 1))
    assert {each["actor"].partition(":")[0] for each in entries} == {"cli", "token"}
    assert team.read("audit", "list", "--limit", "3") == entries[:-4:-1]
    head = team.type("audit", "head").strip()
    assert head == f"{len(entries)}:{entries[-1]['hash']}"
    verified = f"{len(entries)} entries, every link holds; head {head}\n"
    assert team.type("audit", "verify", "--head", head) == verified
    assert team.ask("GET", "audit/head") == {"head": head}
    verification = {"entries": len(entries), "head": head, "broken_at": None, "problem": None}
    verification |= {"archived": 0, "archived_until": None}
    assert team.ask("GET", "audit/verify", query=f"?head={head}") == verification


def they_keep_a_copy(team: Team) -> None:
    """While the service runs; brought back elsewhere, it is the same."""
    path, other = team.home.parent / "backup", team.home.parent / "other"
    assert team.type("backup", "create", str(path)).startswith("backed up ")
    assert " DIFFERENT " not in team.type("backup", "drill", str(path))
    other.mkdir(0o700)
    (other / "master.key").write_bytes((team.home / "master.key").read_bytes())
    assert team.type("restore", str(path), "--home", str(other)).startswith("restored ")
    assert team.type("export", "--home", str(other)) == team.type("export")


def they_move_out(team: Team) -> None:
    moved = team.home.parent / "moved.db"
    assert team.type("db", "migrate").startswith("the schema has version ")
    assert "all read back equal" in team.type("db", "move", "--to", f"sqlite:///{moved}")
    there = run_command(team.home, "audit", "head", database_url=f"sqlite:///{moved}")
    assert there.stdout == team.type("audit", "head")
