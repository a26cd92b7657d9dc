"""Checks through the admin API, the commands and the schedule of a running service, against a real Vault."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.notifications.conftest import eventually
from tests.support.receiver import Receiver
from tests.support.running import Running, run_command
from tests.support.seeding import issue
from tests.vault.process import Vault

NETWORK = """
[networks.dev]
network_type = "evm"
chain_id = 31337
native_symbol = "ETH"
"""
KEY = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
ADDRESS = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"
OTHER = "0x" + "11" * 20
WRONG_SECRET = (
    "Vault does not accept the role_id with the secret_id: one of them is wrong, or the secret_id has expired"
    " or is used up"
)
NAMES = ("here", "posted", "sent")
NOT_ALLOWED = (
    "the key system's address is not public, and neither RELAYDECK_DRIVER_ALLOW nor an endpoint in the settings allows"
    " it: no connection was made"
)
DRIVER = {"driver_provider_c": "vault-kv", "driver_allow": "127.0.0.1"}


class Key:
    """A key in Vault and the AppRole that may read it."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self.name = secrets.token_hex(6)
        self.secret_id = secrets.token_hex(12)
        vault.call("POST", f"secret/data/relayers/{self.name}", {"data": {"value": KEY}})
        vault.call("POST", f"auth/approle/role/{self.name}", {"token_policies": "relaydeck", "token_ttl": "1h"})
        self.role_id = vault.call("GET", f"auth/approle/role/{self.name}/role-id")["data"]["role_id"]
        self.enable()

    def enable(self) -> None:
        path = f"auth/approle/role/{self.name}/custom-secret-id"
        self.vault.call("POST", path, {"secret_id": self.secret_id})

    def disable(self) -> None:
        self.vault.call("POST", f"auth/approle/role/{self.name}/secret-id/destroy", {"secret_id": self.secret_id})
        self.vault.call("POST", "sys/leases/revoke-prefix/auth/approle/login")

    def signer(self, signer_id: str = "kv") -> dict[str, Any]:
        config = {"address": self.vault.address, "key_name": f"relayers/{self.name}"}
        return {
            "id": signer_id,
            "type": "provider_c",
            "config": config | {"role_id": self.role_id, "secret_id": self.secret_id},
        }


@pytest.fixture
def key(vault: Vault) -> Key:
    return Key(vault)


def relayer(**given: str) -> dict[str, Any]:
    base = {"id": "r1", "name": "One", "network": "dev", "network_type": "evm", "signer_id": "kv"}
    return base | given


def apply_file(signer: dict[str, Any]) -> str:
    lines = "".join(f'{name} = "{value}"\n' for name, value in signer["config"].items())
    return f'[[signers]]\nid = "{signer["id"]}"\ntype = "{signer["type"]}"\n[signers.config]\n{lines}'


@pytest.fixture
def service(home: Path) -> Iterator[Running]:
    assert run_command(home, "apply", "-", stdin=NETWORK).returncode == 0
    with Running(home, token=issue(home, kind="admin"), **DRIVER) as running:
        yield running


def test_a_relayer_gets_the_address_of_its_key_and_the_check_succeeds(service: Running, key: Key) -> None:
    assert service.ask("POST", "/admin/v1/signers", key.signer()).status == 201
    made = service.ask("POST", "/admin/v1/relayers", relayer())
    assert (made.status, made.json["data"]["address"]) == (201, ADDRESS)
    check = service.ask("POST", "/admin/v1/signers/kv/check").json["data"]
    assert {name: check[name] for name in ("outcome", "explanation", "address", "mismatched_relayers")} == {
        "outcome": "ok",
        "explanation": "the key signed a challenge, and its address matches the one relayer that uses this signer",
        "address": ADDRESS,
        "mismatched_relayers": [],
    }
    assert service.ask("GET", "/admin/v1/signers/kv").json["data"]["check"] == check


def test_an_address_that_the_key_does_not_have_is_refused_with_both(service: Running, key: Key) -> None:
    service.ask("POST", "/admin/v1/signers", key.signer())
    refused = service.ask("POST", "/admin/v1/relayers", relayer(address=OTHER))
    assert (refused.status, refused.headers["relaydeck-reason"]) == (
        400,
        f"address: {OTHER} is not the address of this signer, which is {ADDRESS}",
    )


def test_a_key_out_of_reach_gives_no_address_and_nothing_is_stored(service: Running, key: Key) -> None:
    service.ask("POST", "/admin/v1/signers", key.signer())
    key.disable()
    refused = service.ask("POST", "/admin/v1/relayers", relayer())
    reason = WRONG_SECRET
    assert (refused.status, refused.headers["relaydeck-reason"]) == (400, f"address: is missing, and {reason}")
    assert service.ask("GET", "/admin/v1/relayers").json["data"] == []
    stored = service.ask("POST", "/admin/v1/relayers", relayer(address=OTHER))
    hint = f"address: is stored without verification: {reason}"
    assert (stored.status, [each["message"] for each in stored.json["metadata"]["logs"]]) == (201, [hint])


def test_nothing_under_the_described_interface_checks(service: Running, key: Key) -> None:
    service.ask("POST", "/admin/v1/signers", key.signer())
    assert service.ask("POST", "/api/v1/signers/kv/check").status == 404
    assert "check" not in service.ask("GET", "/api/v1/signers").json["data"][0]


def test_a_command_that_creates_the_home_asks_a_key_system_once(home: Path, key: Key) -> None:
    """It plans twice: before there is a home, and on the new one."""
    key.secret_id = secrets.token_hex(12)
    used_once = {"secret_id": key.secret_id, "num_uses": 1}
    key.vault.call("POST", f"auth/approle/role/{key.name}/custom-secret-id", used_once)
    file = NETWORK + apply_file(key.signer())
    file += '[[relayers]]\nid = "r1"\nname = "One"\nnetwork = "dev"\nnetwork_type = "evm"\nsigner_id = "kv"\n'
    done = run_command(home, "apply", "-", stdin=file, **DRIVER)
    assert (done.returncode, WRONG_SECRET in done.stdout + done.stderr) == (0, False)
    unknown = run_command(home, "apply", "-", stdin=file.replace('"r1"', '"r2"'), **DRIVER)
    assert (unknown.returncode, WRONG_SECRET in unknown.stderr) == (1, True)


def test_the_command_checks_and_exits_with_what_it_found(home: Path, key: Key) -> None:
    settings = DRIVER
    file = NETWORK + apply_file(key.signer())
    file += '[[relayers]]\nid = "r1"\nname = "One"\nnetwork = "dev"\nnetwork_type = "evm"\nsigner_id = "kv"\n'
    assert run_command(home, "apply", "-", stdin=file, **settings).returncode == 0
    found = run_command(home, "signer", "check", "--all", "--json", **settings)
    assert (found.returncode, found.stderr) == (0, "1 signer checked, 0 failed\n")
    (check,) = json.loads(found.stdout)
    assert (check["signer_id"], check["outcome"], check["address"]) == ("kv", "ok", ADDRESS)
    key.disable()
    failed = run_command(home, "signer", "check", "kv", **settings)
    assert (failed.returncode, failed.stderr) == (1, "1 signer checked, 1 failed\n")
    assert "access_denied" in failed.stdout
    unbound = run_command(home, "signer", "check", "--all")
    assert (unbound.returncode, unbound.stderr) == (
        0,
        "note: 1 signer left out: no driver is bound to the type\n0 signers checked, 0 failed\n",
    )
    doctor = run_command(home, "doctor", **settings)
    assert (
        "FAIL  signers: 'kv' (access_denied) failed the latest check; run 'relaydeck signer check ID'" in doctor.stdout
    )
    unbound = run_command(home, "signer", "check", "kv")
    assert (unbound.returncode, "set RELAYDECK_DRIVER_PROVIDER_C" in unbound.stdout) == (1, True)


def test_a_private_key_system_is_used_for_signers_set_on_the_machine_only(home: Path, key: Key) -> None:
    """Without RELAYDECK_DRIVER_ALLOW. The service and the commands agree."""
    binding = {"driver_provider_c": "vault-kv"}
    file = NETWORK + apply_file(key.signer("here"))
    file += '[[relayers]]\nid = "r1"\nname = "One"\nnetwork = "dev"\nnetwork_type = "evm"\nsigner_id = "here"\n'
    assert run_command(home, "apply", "-", stdin=file, **binding).returncode == 0
    document = {"signers": [key.signer("sent")]}
    with Running(home, token=issue(home, kind="admin"), **binding) as service:
        assert service.ask("POST", "/api/v1/signers", key.signer("posted")).status == 201
        assert service.ask("POST", "/admin/v1/apply", {"document": document}).status == 200
        checks = [service.ask("POST", f"/admin/v1/signers/{name}/check").json["data"] for name in NAMES]
        made = service.ask("POST", "/admin/v1/relayers", relayer(id="r2", signer_id="posted"))
    assert [each["outcome"] for each in checks] == ["ok", "unreachable", "unreachable"]
    assert {each["explanation"] for each in checks[1:]} == {NOT_ALLOWED}
    assert (made.status, made.headers["relaydeck-reason"]) == (400, f"address: is missing, and {NOT_ALLOWED}")
    found = run_command(home, "signer", "check", "--all", "--json", **binding)
    assert [(each["signer_id"], each["outcome"]) for each in json.loads(found.stdout)] == [
        ("here", "ok"),
        ("posted", "unreachable"),
        ("sent", "unreachable"),
    ]
    doctor = run_command(home, "doctor", **binding).stdout
    assert "nothing is sent to the config.address of 'posted', 'sent': it is not public" in doctor


async def test_a_disabled_key_raises_an_alarm_within_a_round_and_recovers_by_itself(home: Path, key: Key) -> None:
    receiver = Receiver()
    await receiver.start()
    assert run_command(home, "apply", "-", stdin=NETWORK).returncode == 0
    settings = DRIVER | {
        "signer_check_seconds": "1",
        "monitor_interval_seconds": "0",
        "webhook_allow": "127.0.0.0/8",
        "lease_seconds": "60",
    }
    with Running(home, token=issue(home, kind="admin"), **settings) as service:
        service.ask("POST", "/admin/v1/notifications", {"id": "pager", "type": "webhook", "url": receiver.url})
        service.ask("POST", "/admin/v1/signers", key.signer())
        made = service.ask("POST", "/admin/v1/relayers", relayer(notification_id="pager"))
        assert made.status == 201
        key.disable()
        await eventually(lambda: len(receiver.got) >= 1)
        arrived = receiver.got[0].json
        assert (arrived["type"], arrived["data"]["relayer"]["id"], arrived["data"]["details"]) == (
            "signer.unreachable",
            "r1",
            {
                "signer_id": "kv",
                "outcome": "access_denied",
                "explanation": WRONG_SECRET,
            },
        )
        why = service.ask("GET", "/admin/v1/relayers/r1/why").json["data"]
        assert [state["state"] for state in why["states"]] == ["signer_unreachable"]
        assert why["states"][0]["cause"].startswith(f"signer 'kv': {WRONG_SECRET}")
        key.enable()
        await eventually(lambda: len(receiver.got) >= 2)
        assert receiver.got[1].json["type"] == "signer.recovered"
        assert service.ask("GET", "/admin/v1/relayers/r1/why").json["data"]["states"] == []
        shown = service.ask("GET", "/api/v1/relayers").json["data"][0]
        assert (shown["paused"], shown["system_disabled"]) == (False, False)
    await receiver.stop()
