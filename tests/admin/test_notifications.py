"""Notifications and the test event over the admin API."""

from typing import Any

import pytest

from tests.admin.conftest import PAGER, Admin, made, paged, problem, refusal, success, timeless

NEW = {"id": "chat", "type": "webhook", "url": "https://hooks.example.com/secret-path"}
SHOWN = NEW | {"has_signing_key": False}


def test_it_is_created_read_listed_changed_and_deleted(admin: Admin) -> None:
    answer = admin.ask("POST", "notifications", NEW)
    assert (answer.status, timeless(answer.json)) == (201, made(SHOWN))
    assert timeless(admin.ask("GET", "notifications").json) == paged([PAGER, SHOWN])
    assert admin.get("notifications?id=CHA") == [SHOWN]
    steps: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"signing_key": "first"}, {"has_signing_key": True}),
        ({"signing_key": "first"}, {"has_signing_key": True}),
        ({"signing_key": "second", "url": "https://hooks.example.com/other"}, {"has_signing_key": True}),
        ({"signing_key": None}, {"has_signing_key": False}),
    ]
    for patch, expected in steps:
        answer = admin.ask("PATCH", "notifications/chat", patch)
        assert answer.status == 200
        assert answer.json["data"]["has_signing_key"] == expected["has_signing_key"]
    assert admin.get("notifications/chat") == SHOWN | {"url": "https://hooks.example.com/other"}
    assert admin.ask("DELETE", "notifications/chat").json == made(None)
    answer = admin.ask("GET", "notifications/chat")
    assert problem(answer) == (404, "Notification not found")
    host = "https://hooks.example.com"
    assert [(each["action"], each["before"], each["after"]) for each in admin.audited()[-5:]] == [
        ("notification.created", None, {"type": "webhook", "url": host, "signing_key": None}),
        ("notification.updated", {"signing_key": None}, {"signing_key": "set"}),
        (
            "notification.updated",
            {"url": host, "signing_key": "set"},
            {"url": "changed", "signing_key": "changed"},
        ),
        ("notification.updated", {"signing_key": "set"}, {"signing_key": None}),
        ("notification.deleted", {"type": "webhook", "url": host, "signing_key": None}, None),
    ]


def test_one_in_use_is_not_deleted(shared: Admin) -> None:
    answer = shared.ask("DELETE", "notifications/pager")
    assert refusal(answer) == (409, "Notification is still used by relayer sepolia-1")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"url": "nowhere"}, "url: must begin with http:// or https://"),
        ({"url": None}, "url: is missing; expected an absolute http(s) URL"),
        ({"type": "mail"}, 'type: expected "webhook"'),
        ({"signing_key": 5}, "signing_key: expected a string"),
        ({"signing_key": {"file": "/etc/passwd"}}, "signing_key: must be a string: references are for files"),
        ({"has_signing_key": False}, "has_signing_key cannot be changed here"),
    ],
)
def test_what_is_refused(shared: Admin, change: dict[str, Any], reason: str) -> None:
    answer = shared.ask("PATCH", "notifications/pager", change)
    assert problem(answer) == (400, "Bad Request")
    assert answer.headers["relaydeck-reason"].startswith(reason)


def test_a_test_event_is_written_and_on_its_way(admin: Admin) -> None:
    answer = admin.ask("POST", "notifications/pager/test")
    event = answer.json["data"]
    assert answer.status == 201
    assert {name: value for name, value in event.items() if name not in ("id", "timestamp")} == {
        "type": "notification.test",
        "sequence": 1,
        "version": 1,
        "data": {"notification_id": "pager"},
    }
    assert admin.get("events") == [event]
    assert admin.get(f"events/{event['id']}") == event
    assert admin.get("events?after=1") == []
    (delivery,) = admin.get("deliveries?notification_id=pager")
    assert (delivery["id"], delivery["type"], delivery["relayer_id"]) == (event["id"], "notification.test", None)
    assert admin.get("deliveries?notification_id=other") == []
    assert admin.get(f"deliveries/{event['id']}")["sequence"] == 1
    assert admin.audited()[-1] == {
        "actor": "token:root",
        "action": "notification.tested",
        "record": "pager",
        "before": None,
        "after": None,
    }


def test_what_is_not_there(shared: Admin) -> None:
    for method, path, message in (
        ("POST", "notifications/nobody/test", "no notification has this id"),
        ("GET", "events/none", "Event not found"),
        ("GET", "deliveries/none", "Delivery not found"),
        ("POST", "deliveries/none/replay", "Delivery not found"),
    ):
        answer = shared.ask(method, path)
        assert refusal(answer) == (404, message)
    assert shared.ask("GET", "deliveries?state=lost").status == 400
    for path in ("events?after=-1", "events?before=x", "events?order=up", "deliveries?order=up"):
        assert shared.ask("GET", path).status == 400
    assert shared.ask("POST", "deliveries/replay").json == success({"replayed": 0}, changed=False)


def test_changes_through_the_described_interface_are_audited_too(admin: Admin) -> None:
    body = {"id": "s9", "type": "provider_a_kms", "config": {"key_id": "k", "region": "r"}}
    assert admin.running.ask("POST", "/api/v1/signers", body).status == 201
    change = {"url": "https://elsewhere.example.com/", "signing_key": ""}
    assert admin.running.ask("PATCH", "/api/v1/notifications/pager", change).status == 200
    assert admin.running.ask("PATCH", "/api/v1/notifications/pager", {}).status == 200
    assert [(each["actor"], each["action"], each["before"], each["after"]) for each in admin.audited()[-2:]] == [
        (
            "token:root",
            "signer.created",
            None,
            {"type": "provider_a_kms", "config": {"key_id": "k", "region": "r"}},
        ),
        (
            "token:root",
            "notification.updated",
            {"url": "https://hooks.example.com", "signing_key": "set"},
            {"url": "https://elsewhere.example.com", "signing_key": None},
        ),
    ]
