"""Secrets given over the admin API appear in no answer, no audit entry and no log; damage fails alone."""

import secrets
from typing import Any

from tests.admin.conftest import Admin, refusal
from tests.support.running import run_command
from tests.support.seeding import opened


def test_planted_secrets_are_found_nowhere(admin: Admin) -> None:
    planted: list[str] = []

    def plant() -> str:
        planted.append(f"planted{secrets.token_hex(12)}")
        return planted[-1]

    def signer(number: int) -> dict[str, Any]:
        config = {"address": "https://s.example.com", "key_name": "k", "role_id": plant(), "secret_id": plant()}
        return {"id": f"s{number}", "type": "provider_c", "config": config}

    bodies = [
        ("POST", "signers", signer(1)),
        ("POST", "signers", signer(1)),
        ("POST", "signers", signer(2) | {"zap": plant()}),
        ("POST", "signers", {"type": "plain", "config": {"key": [plant()]}}),
        ("POST", "signers", {"type": "plain", "config": {plant(): plant()}}),
        ("POST", "signers", {"type": plant(), "config": {}}),
        (
            "POST",
            "notifications",
            {"id": "n", "type": "webhook", "url": "https://h.example.com", "signing_key": plant()},
        ),
        ("PATCH", "notifications/n", {"signing_key": plant()}),
        ("PATCH", "notifications/n", {"signing_key": [plant()]}),
        ("PATCH", "notifications/n", {plant(): plant()}),
        ("PATCH", "notifications/n", {"url": plant()}),
        ("POST", "notifications/n/test", {plant(): 1}),
        ("PATCH", "networks/sepolia", {"rpc_urls": [{"url": plant()}]}),
        ("POST", "tokens", {"name": "x", "kind": plant()}),
    ]
    seen = []
    for method, path, body in bodies:
        answer = admin.ask(method, path, body, Idempotency_Key=secrets.token_hex(4))
        seen.append(f"{answer.headers} {answer.body.decode()}")
    # A node's address is shown whole to administrators and reduced everywhere else.
    url = f"https://u:{plant()}@node.example.com/{plant()}?k={plant()}"
    for path, field in (("networks/sepolia", "rpc_urls"), ("relayers/sepolia-1", "custom_rpc_urls")):
        answer = admin.ask("PATCH", path, {field: [{"url": url}]})
        assert answer.json["data"][field] == [{"url": url, "weight": 1}]
    admin.ask("POST", "relayers/sepolia-1/pause")
    issued = admin.ask("POST", "tokens", {"name": "shown once"}, Idempotency_Key="t").json["data"]["token"]
    planted.append(issued)
    for path in ("signers", "signers/s1", "notifications/n", "tokens", "events", "deliveries", "audit?per_page=1000"):
        seen.append(admin.ask("GET", path).body.decode())
    home = admin.running.home
    for verb in (("signer", "list"), ("notification", "show", "n"), ("audit", "list"), ("event", "list")):
        seen.append(run_command(home, *verb, "--json").stdout)
    admin.running.stop()
    seen.append(admin.running.log)
    seen += [path.read_bytes().decode("latin-1") for path in home.glob("relaydeck.db*")]
    assert [secret for secret in planted if any(secret in text for text in seen)] == []


def test_a_damaged_record_is_shown_without_what_does_not_open(admin: Admin) -> None:
    with opened(admin.running.home) as store, store.database.transaction() as transaction:
        transaction.execute("UPDATE relayers SET sealed_rpc_urls = x'0100000001'")
        transaction.execute("UPDATE networks SET sealed_rpc_urls = x'0100000001'")
    for path, field, table, record in (
        ("relayers/sepolia-1", "custom_rpc_urls", "relayers", "sepolia-1"),
        ("networks/sepolia", "rpc_urls", "networks", "sepolia"),
    ):
        answer = admin.ask("GET", path)
        note = f"the sealed {field} of {table} record '{record}' does not open"
        assert (answer.status, field in answer.json["data"]) == (200, False)
        assert answer.json["metadata"]["logs"] == [{"level": "log", "message": note}]
        refused = admin.ask("PATCH", path, {"network_type": "evm"})
        reported = f"the stored {field} cannot be opened: set it again"
        assert refusal(refused) == (409, reported)
        mended = admin.ask("PATCH", path, {field: []})
        assert (mended.status, mended.json["data"][field]) == (200, [])
    entries = admin.audited()[-2:]
    assert [each["before"] for each in entries] == [{"custom_rpc_urls": "damaged"}, {"rpc_urls": "damaged"}]
    assert admin.ask("POST", "relayers/sepolia-1/pause").status == 200
