"""The verbs of the command line: the same changes as the admin API, on the home itself."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from relaydeck.cli.record_commands import document
from relaydeck.errors import OperatorError
from tests.admin.conftest import ADDRESS, PAGER, RELAYER, SEPOLIA, timeless
from tests.conftest import DEMO
from tests.support.fork_server import Done
from tests.support.running import run_command


@pytest.fixture
def provisioned(home: Path) -> Path:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    return home


def run(home: Path, *arguments: str, stdin: str = "") -> Done:
    done = run_command(home, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done


def output(home: Path, *arguments: str, stdin: str = "") -> Any:
    return timeless(json.loads(run(home, *arguments, "--json", stdin=stdin).stdout))


def refused(home: Path, *arguments: str) -> str:
    done = run_command(home, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def test_everything_is_listed_and_shown(provisioned: Path) -> None:
    assert output(provisioned, "network", "list") == [SEPOLIA]
    assert output(provisioned, "network", "show", "sepolia") == SEPOLIA
    assert output(provisioned, "signer", "list") == [{"id": "ops", "type": "local", "config": {}, "check": None}]
    assert output(provisioned, "notification", "show", "pager") == PAGER
    assert output(provisioned, "relayer", "list", "--network", "sepolia", "--state", "active") == [RELAYER]
    assert output(provisioned, "relayer", "list", "--name", "nothing like it") == []
    table = run(provisioned, "relayer", "list").stdout
    assert all(word in table for word in ("sepolia-1", "Sepolia one", "active", ADDRESS, "ops"))
    shown = run(provisioned, "relayer", "show", "sepolia-1").stdout
    assert "policies.gas_price_cap" in shown and "100000000000" in shown


def test_a_relayers_life(provisioned: Path) -> None:
    fields = ("id=r2", "name=Second", "network=sepolia", "network_type=evm", "signer_id=ops")
    created = run(provisioned, "relayer", "create", *fields)
    assert (created.stdout, created.stderr) == ("", "created relayer r2\n")
    changed = output(provisioned, "relayer", "update", "r2", "policies.min_balance:=5", "notification_id=pager")
    assert (changed["policies"]["min_balance"], changed["notification_id"]) == (5, "pager")
    assert "notification_id" not in output(provisioned, "relayer", "update", "r2", "notification_id:=null")
    said = [run(provisioned, "relayer", "update", "r2", "name=Renamed").stderr for _ in range(2)]
    assert said == ["updated relayer r2\n", "relayer r2 already has these values\n"]
    assert run(provisioned, "relayer", "pause", "r2").stderr == "paused relayer r2\n"
    assert run(provisioned, "relayer", "pause", "r2").stderr == "relayer r2 is already paused\n"
    assert output(provisioned, "relayer", "show", "r2")["paused"] is True
    assert run(provisioned, "relayer", "resume", "r2").stderr == "resumed relayer r2\n"
    assert run(provisioned, "relayer", "resume", "r2").stderr == "relayer r2 is not paused\n"
    assert run(provisioned, "relayer", "delete", "r2", "--yes").stderr == "deleted relayer r2\n"
    assert refused(provisioned, "relayer", "show", "r2") == "relaydeck: Relayer with ID r2 not found\n"
    assert refused(provisioned, "relayer", "pause", "r2") == (
        "relaydeck: Relayer with ID r2 not found\nNothing was changed.\n"
    )
    events = output(provisioned, "event", "list", "--order", "oldest")
    assert [(each["type"], each["sequence"]) for each in events] == [("relayer.paused", 1), ("relayer.resumed", 2)]
    assert output(provisioned, "event", "list", "--after", "1") == events[1:]


def test_signers_notifications_and_networks(provisioned: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("33" * 32 + "\n")
    signer = output(provisioned, "signer", "create", "id=s2", "type=plain", f"config.key=@{tmp_path / 'key'}")
    assert signer == {"id": "s2", "type": "local", "config": {}, "check": None}
    whole = {"id": "chat", "type": "webhook", "url": "https://hooks.example.com/x", "signing_key": {"env": "HOME"}}
    created = output(provisioned, "notification", "create", "--from", "-", stdin=json.dumps(whole))
    assert created == {name: whole[name] for name in ("id", "type", "url")} | {"has_signing_key": True}
    assert output(provisioned, "notification", "update", "chat", "signing_key=")["has_signing_key"] is False
    assert run(provisioned, "notification", "test", "chat").stderr.startswith("recorded test event evt_")
    (delivery,) = output(provisioned, "event", "deliveries", "--state", "pending")
    assert (delivery["notification_id"], delivery["tries"]) == ("chat", 0)
    assert output(provisioned, "event", "show", delivery["id"]) == delivery | {"attempts": []}
    assert "is already due" in refused(provisioned, "event", "replay", delivery["id"])
    assert run(provisioned, "event", "replay", "--all-dead").stderr == "no delivery is dead\n"
    network = ("name=dev", "network_type=evm", "chain_id:=5", "native_symbol=ETH")
    assert run(provisioned, "network", "create", *network).stderr == "created network dev\n"
    for resource, name in (("signer", "s2"), ("notification", "chat"), ("network", "dev")):
        run(provisioned, resource, "delete", name, "--yes")
    assert refused(provisioned, "signer", "delete", "ops", "--yes") == (
        "relaydeck: Signer is still used by relayer sepolia-1\nNothing was changed.\n"
    )


def test_mistakes_are_told_in_full(provisioned: Path) -> None:
    assert refused(provisioned, "relayer", "create", "name=x", "network=nowhere", "nam=y") == (
        'relaydeck: network_type: is missing; expected "evm"; '
        "signer_id: is missing; expected a string; unknown field; did you mean name?; "
        "network: there is no such network\nNothing was changed.\n"
    )
    outside = refused(provisioned, "relayer", "update", "sepolia-1", "gas_price_cap:=5")
    assert outside == "relaydeck: unknown field; did you mean policies.gas_price_cap?\nNothing was changed.\n"
    assert "there is nothing to change" in refused(provisioned, "relayer", "update", "sepolia-1")
    assert "type must be one of plain" in refused(provisioned, "signer", "create", "type=x", "config:={}")
    assert refused(provisioned, "signer", "create", "type=plain", "config:={}", "0x-forgotten-field-name") == (
        "relaydeck: field argument 3 is neither FIELD=TEXT nor FIELD:=JSON\nFIELD=@FILE reads the value from a file.\n"
    )


def test_assignments() -> None:
    given = ("a=1", "b:=1", "c.d=x=y", "c.e:=[1,null]", "f=")
    assert document("", given) == {"a": "1", "b": 1, "c": {"d": "x=y", "e": [1, None]}, "f": ""}
    for wrong in ("x", "=1", ":=1", "x:=nope", "x=@/nowhere/at/all"):
        with pytest.raises(OperatorError):
            document("", (wrong,))
    with pytest.raises(OperatorError):
        document("", ("a=1", "a.b=2"))


def tamper(home: Path, sql: str) -> None:
    with closing(sqlite3.connect(home / "relaydeck.db")) as connection:
        connection.execute(sql)
        connection.commit()


def test_the_audit_log_is_listed_verified_and_its_breaks_are_found(provisioned: Path) -> None:
    run(provisioned, "token", "create", "ci", "--kind", "readonly")
    run(provisioned, "token", "revoke", "ci")
    head = run(provisioned, "audit", "head").stdout.strip()
    run(provisioned, "relayer", "pause", "sepolia-1")
    newest, *_ = output(provisioned, "audit", "list", "--limit", "1")
    assert (newest["sequence"], newest["action"], newest["record"]) == (7, "relayer.paused", "sepolia-1")
    assert newest["actor"].startswith("cli:")
    assert [each["action"] for each in output(provisioned, "audit", "list", "--record", "ci")] == [
        "token.revoked",
        "token.created",
    ]
    assert "relayer.paused" in run(provisioned, "audit", "list").stdout
    verified = run(provisioned, "audit", "verify", "--head", head)
    assert verified.stdout.startswith("7 entries, every link holds; head 7:")
    tamper(provisioned, "DELETE FROM audit WHERE seq > 5")
    for given in ((), ("--head", head)):
        assert refused(provisioned, "audit", "verify", *given) == (
            "relaydeck: the audit log is broken: entry 6 is missing: the stored head was taken at entry 7\n"
            "The entries before it are unchanged. Compare the rest with a backup.\n"
        )
    tamper(provisioned, "UPDATE audit SET actor = 'cli:nobody' WHERE seq = 3")
    assert refused(provisioned, "audit", "verify").startswith(
        "relaydeck: the audit log is broken: entry 3 was changed, or does not follow the row before it\n"
    )
    tamper(provisioned, "DELETE FROM audit WHERE seq = 2")
    assert refused(provisioned, "audit", "verify").startswith(
        "relaydeck: the audit log is broken: entry 2 is missing\n"
    )
    assert (
        refused(provisioned, "audit", "verify", "--head", "x")
        == "relaydeck: head must be a number, a colon and 64 hexadecimal digits\n"
    )


def test_applying_is_audited_step_by_step(provisioned: Path) -> None:
    changed = DEMO.replace('name = "Sepolia one"', 'name = "Renamed"').replace("key=k", "key=other")
    run(provisioned, "apply", "-", stdin=changed)
    run(provisioned, "apply", "-", stdin=changed)
    pruned = changed.split("[[relayers]]")[0]
    run(provisioned, "apply", "-", "--prune", "--yes", stdin=pruned)
    entries = output(provisioned, "audit", "list")
    assert [(each["action"], each["record"]) for each in entries] == [
        ("relayer.deleted", "sepolia-1"),
        ("relayer.updated", "sepolia-1"),
        ("relayer.created", "sepolia-1"),
        ("notification.created", "pager"),
        ("signer.created", "ops"),
        ("network.created", "sepolia"),
    ]
    url = [{"url": "http://127.0.0.1:9", "weight": 3}]
    assert (entries[1]["before"], entries[1]["after"]) == (
        {"name": "Sepolia one", "custom_rpc_urls": url},
        {"name": "Renamed", "custom_rpc_urls": "changed"},
    )
