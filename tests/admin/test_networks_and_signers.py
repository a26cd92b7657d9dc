"""Networks and signers over the admin API."""

from typing import Any

import pytest

from tests.admin.conftest import SEPOLIA, Admin, made, paged, problem, refusal, timeless

USDC = {
    "address": "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238",
    "decimals": 6,
    "margin_percent": "1.5",
    "rate": {"feed": "0x694AA1769357215DE4FAC081bf1f309aDC325306", "max_age": "1h"},
}
NEW = {
    "name": "dev",
    "network_type": "evm",
    "chain_id": 31337,
    "native_symbol": "ETH",
    "rpc_urls": [{"url": "https://node.example.com/key/abc", "weight": 2}],
    "fee_tokens": {"USDC": USDC},
    "fee_model": "op_stack",
}


def test_a_network_is_created_read_listed_changed_and_deleted(admin: Admin) -> None:
    answer = admin.ask("POST", "networks", NEW)
    assert (answer.status, timeless(answer.json)) == (201, made(NEW))
    assert timeless(admin.ask("GET", "networks").json) == paged([SEPOLIA, NEW])
    assert admin.get("networks?name=DE") == [NEW]
    patch = {"rpc_urls": [{"url": "https://node.example.com/key/def", "weight": 2}], "fee_tokens": {"USDC": None}}
    answer = admin.ask("PATCH", "networks/dev", patch)
    changed = NEW | {"rpc_urls": patch["rpc_urls"], "fee_tokens": {}}
    assert (answer.status, timeless(answer.json)) == (200, made(changed))
    assert admin.ask("DELETE", "networks/dev").json == made(None)
    answer = admin.ask("GET", "networks/dev")
    assert refusal(answer) == (404, "Network not found")
    shown = [{"url": "https://node.example.com", "weight": 2}]
    assert [(each["action"], each["before"], each["after"]) for each in admin.audited()[-2:]] == [
        (
            "network.updated",
            {
                "rpc_urls": shown,
                "fee_tokens": [
                    {
                        "symbol": "USDC",
                        "address": USDC["address"],
                        "decimals": 6,
                        "rate": {
                            "source": "feed",
                            "feed": "0x694AA1769357215DE4FAC081bf1f309aDC325306",
                            "max_age": 3600,
                            "inverse": False,
                        },
                        "margin_percent": "1.5",
                    }
                ],
            },
            {"rpc_urls": "changed", "fee_tokens": []},
        ),
        (
            "network.deleted",
            {
                "network_type": "evm",
                "chain_id": 31337,
                "native_symbol": "ETH",
                "rpc_urls": shown,
                "fee_tokens": [],
                "fee_model": "op_stack",
            },
            None,
        ),
    ]


def test_a_price_factor_of_an_earlier_version_is_accepted_and_forgotten(admin: Admin) -> None:
    answer = admin.ask("POST", "networks", NEW | {"price_factor": 10})
    assert (answer.status, timeless(answer.json)) == (201, made(NEW))
    answer = admin.ask("PATCH", "networks/dev", {"price_factor": 20})
    assert (answer.status, answer.json["changed"], timeless(answer.json)["data"]) == (200, False, NEW)


def test_a_network_that_names_its_chain(admin: Admin) -> None:
    polygon = {"network_type": "evm", "chain_id": 137, "native_symbol": "POL", "tip_floor": 25_000_000_000}
    stored = {"name": "c", **polygon, "rpc_urls": [], "fee_tokens": {}, "fee_model": "ethereum"}
    answer = admin.ask("POST", "networks", {"name": "c", "chain": "polygon"})
    assert (answer.status, timeless(answer.json)) == (201, made(stored))
    base = {"chain_id": 8453, "native_symbol": "BETH", "fee_model": "op_stack"}
    answer = admin.ask("PATCH", "networks/c", {"chain": "base", "native_symbol": "BETH"})
    changed = {name: value for name, value in stored.items() if name != "tip_floor"} | base
    assert (answer.status, timeless(answer.json)) == (200, made(changed))
    refused = refusal(admin.ask("PATCH", "networks/c", {"chain": "somnia"}))
    assert refused[0] == 400 and "chain: somnia cannot be estimated: its price of gas depends on" in str(refused[1])
    assert admin.get("networks?name=c")[0]["chain_id"] == 8453


def test_the_headers_of_a_node(admin: Admin) -> None:
    header = {"name": "Authorization", "value": "Bearer hunter2"}
    keyed = NEW | {"name": "keyed", "rpc_urls": [{"url": "wss://node.example.com", "weight": 1, "headers": [header]}]}
    shown = [{"url": "wss://node.example.com", "weight": 1, "headers": [{"name": "Authorization"}]}]
    answer = admin.ask("POST", "networks", keyed)
    assert (answer.status, timeless(answer.json)) == (201, made(keyed | {"rpc_urls": shown}))
    assert admin.ask("PATCH", "networks/keyed", {"quorum": 2}).status == 200
    assert admin.ask("PATCH", "networks/keyed", {"rpc_urls": shown}).status == 200
    changed = [shown[0] | {"weight": 5}]
    for nodes in (changed, [changed[0] | {"headers": [header]}]):  # without the value: the same URL keeps it
        answer = admin.ask("PATCH", "networks/keyed", {"rpc_urls": nodes})
        assert answer.json["data"]["rpc_urls"] == changed
    answer = admin.ask("PATCH", "networks/keyed", {"rpc_urls": [changed[0] | {"url": "wss://other.example.com"}]})
    assert refusal(answer)[0] == 400
    assert "hunter2" not in str(admin.audited())


def test_what_is_in_use_is_not_deleted(shared: Admin) -> None:
    for path, word in (("networks/sepolia", "Network"), ("signers/ops", "Signer")):
        answer = shared.ask("DELETE", path)
        assert refusal(answer) == (409, f"{word} is still used by relayer sepolia-1")
        assert answer.headers["relaydeck-reason"] == "other records still refer to it"


def test_many_users_are_counted(admin: Admin) -> None:
    base = {"network": "sepolia", "network_type": "evm", "signer_id": "ops"}
    for number in range(6):
        assert admin.ask("POST", "relayers", base | {"id": f"r{number}", "name": "x"}).status == 201
    reported = "relayer sepolia-1, relayer r0, relayer r1, relayer r2, relayer r3 and 2 more"
    assert refusal(admin.ask("DELETE", "signers/ops")) == (409, f"Signer is still used by {reported}")


# sentence: 2.4-network-types
@pytest.mark.parametrize(
    ("given", "status", "reported"),
    [
        ({"name": "sepolia"}, 409, "the given name is taken"),
        ({"name": "n", "chain_id": 0}, 400, "chain_id: expected an integer from 1 to"),
        ({"name": "n", "chain_id": "1"}, 400, "chain_id: expected an integer from 1 to"),
        ({"name": "n", "network_type": "solana"}, 400, 'network_type: expected "evm"'),
        ({"name": "n", "extra": 1}, 400, "unknown field"),
        ({"name": ""}, 400, "name must have 1 to 255 characters"),
        ({"name": "n", "fee_tokens": {"U": {"address": "0x", "decimals": 6}}}, 400, "fee_tokens.U.address: expected"),
    ],
)
def test_what_is_refused(shared: Admin, given: dict[str, Any], status: int, reported: str) -> None:
    answer = shared.ask("POST", "networks", NEW | given)
    assert answer.status == status
    assert answer.headers["relaydeck-reason"].startswith(reported)


def test_a_signer_is_created_read_listed_and_deleted(admin: Admin) -> None:
    config = {"address": "https://store.example.com", "key_name": "k", "pubkey": "p"}
    secrets = {"role_id": "hidden-role", "secret_id": "hidden-secret"}
    body = {"id": "vault", "type": "provider_c_transit", "config": config | secrets}
    answer = admin.ask("POST", "signers", body)
    shown = {"id": "vault", "type": "provider_c_transit", "config": config, "check": None}
    assert (answer.status, timeless(answer.json)) == (201, made(shown))
    ops: dict[str, Any] = {"id": "ops", "type": "local", "config": {}, "check": None}
    assert timeless(admin.ask("GET", "signers").json) == paged([ops, shown])
    assert admin.get("signers?type=local") == [ops]
    assert admin.get("signers?type=provider_c_transit&id=AUL") == [shown]
    assert admin.get("signers/vault") == shown
    assert problem(admin.ask("POST", "signers", body)) == (409, "Signer with this ID already exists")
    assert admin.ask("DELETE", "signers/vault").json == made(None)
    assert refusal(admin.ask("GET", "signers/vault")) == (404, "Signer not found")
    listed = admin.running.ask("GET", "/api/v1/signers").json
    assert [each["id"] for each in listed["data"]] == ["ops"]
    facts = {"type": "provider_c_transit", "config": config | {"role_id": "set", "secret_id": "set"}}
    assert [(each["action"], each["before"], each["after"]) for each in admin.audited()[-2:]] == [
        ("signer.created", None, facts),
        ("signer.deleted", facts, None),
    ]


def test_hints_about_a_signer(admin: Admin) -> None:
    answer = admin.ask("POST", "signers", {"type": "plain", "config": {"key": "zz"}})
    hint = "config.key is not a 32-byte hexadecimal private key, so it cannot sign"
    signer_id = answer.json["data"]["id"]
    assert timeless(answer.json) == made({"id": signer_id, "type": "local", "config": {}, "check": None}, (hint,))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"type": "odd", "config": {}}, "type must be one of plain, provider_a_kms"),
        ({"type": "plain", "config": {}}, "Object missing required field key"),
        ({"type": "plain", "config": {"key": 5}}, "Expected str - at $.config.key"),
        ({"type": "plain", "config": {"key": "k", "zap": "secret"}}, "unknown field"),
        ({"type": "plain", "config": {"key": "k"}, "zap": "secret"}, "unknown field"),
        ({"type": "provider_b_kms", "config": {"key": "k", "service_account": {}}}, "config.key must be an object"),
        ({"id": "..", "type": "plain", "config": {"key": "k"}}, "id must not be a dot segment"),
    ],
)
def test_signers_that_are_refused(shared: Admin, body: dict[str, Any], reason: str) -> None:
    answer = shared.ask("POST", "signers", body)
    assert problem(answer) == (400, "Bad Request")
    assert answer.headers["relaydeck-reason"].startswith(reason)
    assert "secret" not in answer.headers["relaydeck-reason"]
