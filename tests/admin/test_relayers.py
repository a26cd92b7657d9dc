"""Relayers over the admin API."""

from typing import Any

import pytest

from tests.admin.conftest import ADDRESS, POLICIES, RELAYER, Admin, made, paged, problem, refusal, success, timeless

NEW = {"id": "r2", "name": "Second", "network": "sepolia", "network_type": "evm", "signer_id": "ops"}
CREATED = NEW | {
    "address": ADDRESS,
    "paused": False,
    "system_disabled": False,
    "custom_rpc_urls": [],
    "policies": POLICIES,
}


def test_a_relayer_is_read_and_listed(shared: Admin) -> None:
    answer = shared.ask("GET", "relayers/sepolia-1")
    assert (answer.status, timeless(answer.json)) == (200, success(RELAYER))
    assert timeless(shared.ask("GET", "relayers").json) == paged([RELAYER])


def test_a_change_says_whether_it_made_a_difference(admin: Admin) -> None:
    def changed(method: str, path: str, body: Any) -> Any:
        return admin.ask(method, path, body).json["changed"]

    document = {"document": {"notifications": [{"id": "n9", "type": "webhook", "url": "https://hooks.example.com/"}]}}
    assert [changed("PATCH", "relayers/sepolia-1", {"name": "Other"}) for _ in range(2)] == [True, False]
    assert [changed("PATCH", "notifications/pager", {"signing_key": "k" * 32}) for _ in range(2)] == [True, False]
    assert [changed("POST", "apply", document) for _ in range(2)] == [True, False]


# sentence: 3-paused
def test_it_is_created_changed_paused_resumed_and_deleted(admin: Admin) -> None:
    answer = admin.ask("POST", "relayers", NEW)
    assert (answer.status, timeless(answer.json)) == (201, made(CREATED))
    patch = {"name": "Renamed", "notification_id": "pager", "policies": {"gas_price_cap": 10**30, "min_balance": 7}}
    answer = admin.ask("PATCH", "relayers/r2", patch, Content_Type="application/merge-patch+json")
    policies = POLICIES | {"gas_price_cap": 10**30, "min_balance": 7}
    changed = CREATED | {"name": "Renamed", "notification_id": "pager", "policies": policies}
    assert (answer.status, timeless(answer.json)) == (200, made(changed))
    answer = admin.ask("PATCH", "relayers/r2", {"notification_id": None, "policies": {"gas_price_cap": None}})
    cleared = CREATED | {"name": "Renamed", "policies": POLICIES | {"min_balance": 7}}
    assert (answer.status, timeless(answer.json)) == (200, made(cleared))
    for logs in ((), ("nothing was changed: the relayer was already paused",)):
        answer = admin.ask("POST", "relayers/r2/pause")
        assert (answer.status, timeless(answer.json)) == (
            200,
            success(cleared | {"paused": True}, logs, changed=not logs),
        )
    listed = admin.running.ask("GET", "/api/v1/relayers").json["data"]
    assert [(each["id"], each["paused"]) for each in listed] == [("sepolia-1", False), ("r2", True)]
    answer = admin.ask("POST", "relayers/r2/resume", {})
    assert timeless(answer.json) == made(cleared)
    assert [(each["type"], each["sequence"]) for each in admin.get("events?after=0")] == [
        ("relayer.paused", 1),
        ("relayer.resumed", 2),
    ]
    answer = admin.ask("DELETE", "relayers/r2")
    assert (answer.status, answer.json) == (200, made(None))
    answer = admin.ask("GET", "relayers/r2")
    assert refusal(answer) == (404, "Relayer with ID r2 not found")
    assert [each["id"] for each in admin.running.ask("GET", "/api/v1/relayers").json["data"]] == ["sepolia-1"]
    assert admin.audited()[-5:] == [
        {
            "actor": "token:root",
            "action": "relayer.updated",
            "record": "r2",
            "before": {"name": "Second", "notification_id": None}
            | {"policies.gas_price_cap": None, "policies.min_balance": 0},
            "after": {"name": "Renamed", "notification_id": "pager"}
            | {"policies.gas_price_cap": 10**30, "policies.min_balance": 7},
        },
        {
            "actor": "token:root",
            "action": "relayer.updated",
            "record": "r2",
            "before": {"notification_id": "pager", "policies.gas_price_cap": 10**30},
            "after": {"notification_id": None, "policies.gas_price_cap": None},
        },
        {
            "actor": "token:root",
            "action": "relayer.paused",
            "record": "r2",
            "before": {"paused": False},
            "after": {"paused": True},
        },
        {
            "actor": "token:root",
            "action": "relayer.resumed",
            "record": "r2",
            "before": {"paused": True},
            "after": {"paused": False},
        },
        {
            "actor": "token:root",
            "action": "relayer.deleted",
            "record": "r2",
            "before": {name: CREATED[name] for name in ("network", "network_type", "address", "signer_id")}
            | {"name": "Renamed", "paused": False, "system_disabled": False}
            | {"custom_rpc_urls": []}
            | {f"policies.{name}": value for name, value in (POLICIES | {"min_balance": 7}).items()},
            "after": None,
        },
    ]


def test_an_id_is_made_when_none_is_given(admin: Admin) -> None:
    answer = admin.ask("POST", "relayers", {name: value for name, value in NEW.items() if name != "id"})
    assert answer.status == 201
    assert timeless(answer.json)["data"] == CREATED | {"id": answer.json["data"]["id"]}
    assert len(answer.json["data"]["id"]) == 36


def test_another_signer_brings_its_address(admin: Admin) -> None:
    key = {"id": "two", "type": "plain", "config": {"key": "22" * 32}}
    assert admin.ask("POST", "signers", key).status == 201
    answer = admin.ask("PATCH", "relayers/sepolia-1", {"signer_id": "two"})
    assert answer.json["data"]["address"] == "0x1563915e194D8CfBA1943570603F7606A3115508"
    refused = admin.ask("PATCH", "relayers/sepolia-1", {"address": ADDRESS})
    assert refused.status == 400
    assert refused.headers["relaydeck-reason"].startswith(f"address: {ADDRESS} is not the address of this signer")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"nam": "x"}, "name: is missing; expected a string; unknown field; did you mean name?"),
        ({"name": "x", "network": "nowhere"}, "network: there is no such network"),
        ({"name": None}, "name: must not be null"),
        ({"name": "x", "paused": True}, "unknown field"),
        ({"name": "x", "policies": {"gas_price_cap": -1}}, "policies.gas_price_cap: expected an integer of at least 0"),
        ({"name": "x", "policies": {"min_balance": 1.5}}, "policies.min_balance: expected an integer of at least 0"),
        ({"name": "x", "custom_rpc_urls": [{"url": "ftp://a"}]}, "custom_rpc_urls[0].url: must begin with http"),
        ({"name": "x", "custom_rpc_urls": [{"url": {"env": "HOME"}}]}, "custom_rpc_urls[0].url: must be a string"),
        ({"name": "x", "id": ".."}, "id must not be a dot segment"),
        ({"name": "x", "id": 5}, "id must be given, as a string"),
    ],
)
def test_what_is_refused(shared: Admin, given: dict[str, Any], reason: str) -> None:
    base = {name: value for name, value in NEW.items() if name != "name"} | {"id": "refused"}
    answer = shared.ask("POST", "relayers", base | given)
    assert problem(answer) == (400, "Bad Request")
    assert reason in answer.headers["relaydeck-reason"]
    assert shared.ask("GET", "relayers/refused").status == 404


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"x"', b"null"])
def test_what_is_no_document(shared: Admin, body: bytes) -> None:
    for method, path in (("POST", "relayers"), ("PATCH", "relayers/sepolia-1")):
        answer = shared.ask(method, path, body)
        assert problem(answer) == (400, "Bad Request")


def test_an_id_that_is_taken(shared: Admin) -> None:
    answer = shared.ask("POST", "relayers", NEW | {"id": "sepolia-1"})
    assert refusal(answer) == (409, "Relayer already exists")


def test_what_a_patch_may_not_change(shared: Admin) -> None:
    for patch in ({"id": "other"}, {"paused": True}, {"created_at": "now"}, {"system_disabled": True}):
        answer = shared.ask("PATCH", "relayers/sepolia-1", patch)
        assert (answer.status, answer.headers["relaydeck-reason"]) == (
            400,
            f"{next(iter(patch))} cannot be changed here",
        )
    whole = shared.ask("GET", "relayers/sepolia-1").json["data"]
    before = shared.audited()
    assert shared.ask("PATCH", "relayers/sepolia-1", whole).json["data"] == whole  # sent back as it is: no change
    assert shared.audited() == before


def test_nobody_is_paused_who_is_not_there(shared: Admin) -> None:
    answer = shared.ask("POST", "relayers/nobody/pause")
    assert refusal(answer) == (404, "Relayer with ID nobody not found")
    assert shared.ask("POST", "relayers/sepolia-1/pause", {"why": "x"}).status == 400


def test_filters_and_pages(admin: Admin) -> None:
    network = {"name": "dev", "network_type": "evm", "chain_id": 1337, "native_symbol": "ETH"}
    assert admin.ask("POST", "networks", network).status == 201
    for number in range(5):
        on = {"network": "dev"} if number % 2 else {}
        assert admin.ask("POST", "relayers", NEW | {"id": f"n{number}", "name": f"Bulk {number}"} | on).status == 201
    admin.ask("POST", "relayers/n1/pause")
    for query, expected in {
        "network=dev": ["n1", "n3"],
        "state=paused": ["n1"],
        "state=disabled": [],
        "state=active&network=dev": ["n3"],
        "name=bULK%204": ["n4"],
        "name=%25": [],
        "notification_id=pager": ["sepolia-1"],
        "signer_id=ops&per_page=2&page=2": ["n1", "n2"],
    }.items():
        assert [each["id"] for each in admin.get(f"relayers?{query}")] == expected, query
    answer = admin.ask("GET", "relayers?name=bulk&per_page=2&page=3")
    assert answer.json["pagination"] == {"current_page": 3, "per_page": 2, "total_items": 5}
    assert [each["id"] for each in answer.json["data"]] == ["n4"]
    for query in ("state=odd", "state=paused&state=active", "page=x"):
        assert admin.ask("GET", f"relayers?{query}").status == 400


def test_why_without_a_probe_calls_no_node(shared: Admin) -> None:
    probed, stored = (
        shared.ask("GET", f"relayers/sepolia-1/why?probe={each}").json["data"] for each in ("true", "false")
    )
    assert len(probed["nodes"]) == 1
    assert stored == probed | {"nodes": [], "next_probe_at": stored["next_probe_at"]}


def test_probe_is_true_or_false(shared: Admin) -> None:
    answer = shared.ask("GET", "relayers/sepolia-1/why?probe=1")
    assert (answer.status, answer.json["detail"]) == (400, "probe must be true or false")
