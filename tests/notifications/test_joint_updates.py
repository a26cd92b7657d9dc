"""Updates that are written together have the results that they would have one after another."""

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest

from relaydeck.errors import NotificationNotFound
from relaydeck.notifications import notification_changes
from relaydeck.notifications.model import Notification, NotificationChange
from relaydeck.notifications.notification_changes import RequestedUpdate
from relaydeck.secret import Secret
from relaydeck.store.audit import AuditLog, Head, verify
from relaydeck.store.database import Transaction
from tests.notifications.conftest import Scene

HOOK = "https://hooks.example.com"


@pytest.fixture(autouse=True)
def notifications(scene: Scene) -> None:
    scene.notify("a", f"{HOOK}/a", None)
    scene.notify("b", f"{HOOK}/b", None)


def make(scene: Scene, *updates: tuple[str, NotificationChange]) -> list[Notification | NotificationNotFound]:
    many = [RequestedUpdate(name, change, f"token:{number}") for number, (name, change) in enumerate(updates)]
    with scene.store.database.transaction() as transaction:
        outcomes = notification_changes.update_all(transaction, AuditLog(scene.store.vault), many, now=7)
    return [each if isinstance(each, NotificationNotFound) else each.notification for each in outcomes]


def url(path: str) -> NotificationChange:
    return NotificationChange(url=f"{HOOK}/{path}")


def shown(name: str, address: str, has_key: bool) -> Notification:
    return Notification(id=name, type="webhook", url=address, has_signing_key=has_key)


def audit_entries(scene: Scene) -> list[tuple[object, ...]]:
    sql = "SELECT actor, action, record, before_change, after_change FROM audit ORDER BY seq"
    return [tuple(row) for row in scene.store.database.read(sql)]


def test_each_update_has_its_result_and_its_audit_entry(scene: Scene) -> None:
    assert make(scene, ("a", url("1")), ("b", NotificationChange(signing_key=Secret("key")))) == [
        shown("a", f"{HOOK}/1", False),
        shown("b", f"{HOOK}/b", True),
    ]
    assert audit_entries(scene) == [
        ("token:0", "notification.updated", "a", f'{{"url":"{HOOK}"}}', '{"url":"changed"}'),
        ("token:1", "notification.updated", "b", '{"signing_key":null}', '{"signing_key":"set"}'),
    ]
    with scene.store.database.snapshot():
        assert isinstance(verify(scene.store.database.stream, scene.store.vault), Head)


def test_two_updates_of_one_notification_build_on_each_other(scene: Scene) -> None:
    key = NotificationChange(signing_key=Secret("key"))
    assert make(scene, ("a", url("1")), ("a", key), ("a", url("2"))) == [
        shown("a", f"{HOOK}/1", False),
        shown("a", f"{HOOK}/1", True),
        shown("a", f"{HOOK}/2", True),
    ]
    with scene.store.database.transaction() as transaction:
        stored = notification_changes.find(transaction, scene.store.vault, ["a"])["a"]
    assert stored.notification == shown("a", f"{HOOK}/2", True)


def test_a_url_that_is_changed_and_changed_back_opens(scene: Scene) -> None:
    make(scene, ("a", url("1")), ("a", url("a")))
    with scene.store.database.transaction() as transaction:
        stored = notification_changes.find(transaction, scene.store.vault, ["a"])["a"]
    assert stored.notification == shown("a", f"{HOOK}/a", False)
    assert len(audit_entries(scene)) == 2


def test_an_unknown_notification_does_not_affect_the_others(scene: Scene) -> None:
    missing, changed = make(scene, ("nobody", url("1")), ("a", url("1")))
    assert isinstance(missing, NotificationNotFound)
    assert changed == shown("a", f"{HOOK}/1", False)


def test_an_update_that_changes_nothing_has_no_audit_entry(scene: Scene) -> None:
    assert make(scene, ("a", NotificationChange()), ("b", url("b"))) == [
        shown("a", f"{HOOK}/a", False),
        shown("b", f"{HOOK}/b", False),
    ]
    assert audit_entries(scene) == []


async def test_updates_that_wait_together_take_one_revision(scene: Scene) -> None:
    audit = AuditLog(scene.store.vault)

    def store(transaction: Transaction, many: Sequence[RequestedUpdate]) -> list[int]:
        notification_changes.update_all(transaction, audit, many, now=7)
        return [transaction.revision] * len(many)

    write = partial(scene.writer.write_jointly, store)
    revisions = await asyncio.gather(*(write(RequestedUpdate("a", url(str(each)), "token:x")) for each in range(20)))
    assert len(set(revisions)) == 1
