"""Signatures, checked by the published vector and by an independent implementation."""

import base64
from datetime import UTC, datetime

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from relaydeck.credentials.people import EVERY_PROOF
from relaydeck.errors import NotificationNotFound
from relaydeck.notifications import events
from relaydeck.notifications.model import Notification, NotificationChange
from relaydeck.notifications.notification_changes import RequestedUpdate, update_all
from relaydeck.notifications.sender import key_bytes, message_headers, sign
from relaydeck.secret import Secret
from relaydeck.store.audit import AuditLog, head
from relaydeck.store.rotation import Rotation
from tests.notifications.conftest import KEY, Scene
from tests.support.receiver import Received

OTHER_KEY = "whsec_" + base64.b64encode(b"another key of thirty-two bytes!").decode()
DAY = 86_400


def test_the_published_vector() -> None:
    body = b'{"test": 2432232314}'
    assert message_headers([Secret(KEY)], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize(
    ("key", "used"),
    [
        ("whsec_c2VjcmV0", b"secret"),
        ("whsec_c2VjcmV0cw==", b"secrets"),
        ("whsec_c2VjcmV0cw", b"secrets"),
        ("whsec_not base64!", b"whsec_not base64!"),
        ("whsec_x", b"whsec_x"),
        ("whsec_", b"whsec_"),
        ("c2VjcmV0", b"c2VjcmV0"),
        ("pässwörd", "pässwörd".encode()),
    ],
)
def test_which_bytes_of_a_key_are_used(key: str, used: bytes) -> None:
    assert key_bytes(Secret(key)) == used


def verified(key: str | bytes, received: Received, now: float) -> bool:
    """As the independent implementation verifies it, at the time of arrival."""
    webhook = Webhook(key)
    try:
        age = datetime.now(UTC).timestamp() - now
        assert abs(age) < 300, "the scene's clock must be today's: the package looks at the timestamp"
        return bool(webhook.verify(received.body, received.headers))
    except WebhookVerificationError:
        return False


@pytest.fixture(autouse=True)
def today(scene: Scene) -> None:
    scene.clock.now = float(int(datetime.now(UTC).timestamp()))


def update(scene: Scene, name: str, change: NotificationChange) -> Notification:
    with scene.store.database.transaction() as transaction:
        requested = RequestedUpdate(name, change, "cli:tests")
        (outcome,) = update_all(transaction, AuditLog(scene.store.vault), [requested], now=int(scene.clock.now))
    if isinstance(outcome, NotificationNotFound):
        raise outcome
    return outcome.notification


def change(scene: Scene, key: str) -> Notification:
    return update(scene, "pager", NotificationChange(signing_key=Secret(key)))


def kept_keys(scene: Scene) -> tuple[bool, bool, int | None]:
    ((current, previous, until),) = scene.store.database.read(
        "SELECT sealed_signing_key, sealed_previous_key, previous_key_until FROM notifications WHERE id = 'pager'"
    )
    return current is not None, previous is not None, until


async def sent(scene: Scene, receiver_got: list[Received]) -> Received:
    scene.paused("r1", "pager")
    await scene.deliver(scene.process())
    return receiver_got[-1]


# sentence: 6-signing-key 6-signature
@pytest.mark.parametrize("key", [KEY, OTHER_KEY, "whsec_c2VjcmV0cw"])
async def test_an_independent_implementation_verifies_what_arrives(scene: Scene, key: str) -> None:
    receiver = await scene.receiver("pager", key=key)
    received = await sent(scene, receiver.got)
    assert verified(key, received, scene.clock.now)
    assert not verified(KEY if key != KEY else OTHER_KEY, received, scene.clock.now)


async def test_a_key_of_any_other_form_is_used_by_its_bytes(scene: Scene) -> None:
    receiver = await scene.receiver("pager", key="correct horse ☂")
    assert verified("correct horse ☂".encode(), await sent(scene, receiver.got), scene.clock.now)


async def test_without_a_key_there_is_no_signature(scene: Scene) -> None:
    receiver = await scene.receiver("pager", key=None)
    headers = (await sent(scene, receiver.got)).headers
    assert {name for name in headers if name.startswith("webhook-")} == {"webhook-id", "webhook-timestamp"}


async def test_a_replaced_key_signs_beside_the_new_one_for_a_day(scene: Scene) -> None:
    receiver = await scene.receiver("pager")
    replaced_at = scene.clock.now
    change(scene, OTHER_KEY)
    received = await sent(scene, receiver.got)
    assert len(received.headers["webhook-signature"].split(" ")) == 2
    assert verified(KEY, received, replaced_at) and verified(OTHER_KEY, received, replaced_at)
    scene.clock.now = replaced_at + DAY
    (signature,) = (await sent(scene, receiver.got)).headers["webhook-signature"].split(" ")
    assert signature == sign(
        Secret(OTHER_KEY), receiver.got[-1].headers["webhook-id"], int(scene.clock.now), receiver.got[-1].body
    )


async def test_a_removed_key_is_erased_at_once_with_its_predecessor(scene: Scene) -> None:
    receiver = await scene.receiver("pager")
    change(scene, OTHER_KEY)
    assert kept_keys(scene) == (True, True, int(scene.clock.now) + DAY)
    assert change(scene, "").has_signing_key is False
    assert kept_keys(scene) == (False, False, None)
    assert "webhook-signature" not in (await sent(scene, receiver.got)).headers


async def test_a_key_set_after_a_removal_has_no_predecessor(scene: Scene) -> None:
    await scene.receiver("pager", key=None)
    change(scene, OTHER_KEY)
    assert kept_keys(scene) == (True, False, None)


async def test_setting_the_same_key_again_changes_nothing(scene: Scene) -> None:
    await scene.receiver("pager")
    change(scene, KEY)
    assert kept_keys(scene) == (True, False, None)


async def test_other_changes_leave_both_keys(scene: Scene) -> None:
    await scene.receiver("pager")
    change(scene, OTHER_KEY)
    update(scene, "pager", NotificationChange(url="https://new.example.com/"))
    assert kept_keys(scene) == (True, True, int(scene.clock.now) + DAY)


async def test_a_key_whose_day_is_over_is_erased(scene: Scene) -> None:
    await scene.receiver("pager")
    change(scene, OTHER_KEY)
    scene.clock.pass_(DAY - 1)
    assert not events.has_expired(
        scene.store.database.read, now=int(scene.clock.now), before=int(scene.clock.now) - DAY
    )
    scene.clock.pass_(1)
    await scene.expire()
    assert kept_keys(scene) == (True, False, None)


async def test_a_rotation_of_the_data_key_keeps_the_previous_key_usable(scene: Scene) -> None:
    receiver = await scene.receiver("pager")
    change(scene, OTHER_KEY)
    rotation = Rotation(scene.store, EVERY_PROOF)
    rotation.begin(0)
    list(rotation.batches())
    assert rotation.finish().retired == 1
    received = await sent(scene, receiver.got)
    assert verified(KEY, received, scene.clock.now) and verified(OTHER_KEY, received, scene.clock.now)


async def test_a_key_that_does_not_open_is_not_left_out(scene: Scene) -> None:
    receiver = await scene.receiver("pager")
    with scene.store.database.transaction() as transaction:
        damaged = {"sealed": bytes.fromhex("0100000001")}
        transaction.execute("UPDATE notifications SET sealed_signing_key = :sealed WHERE id = 'pager'", damaged)
    sequence = scene.paused("r1", "pager")
    await scene.deliver(scene.process())
    assert (receiver.got, scene.attempts(sequence)[0].problem) == ([], "key_unreadable")


def test_an_unknown_notification_is_not_found(scene: Scene) -> None:
    with pytest.raises(NotificationNotFound):
        update(scene, "nobody", NotificationChange())


async def test_the_head_of_the_audit_log_is_sent_when_a_setting_asks_for_it(scene: Scene) -> None:
    receiver = await scene.receiver("pager")
    change(scene, OTHER_KEY)  # has an audit entry
    scene.paused("r1", "pager")
    await scene.deliver(scene.process(event_audit_head="on"))
    expected = str(head(scene.store.database.read))
    assert (expected[:2], receiver.got[-1].headers["relaydeck-audit-head"]) == ("1:", expected)


async def test_by_default_no_head_is_sent(scene: Scene) -> None:
    receiver = await scene.receiver("pager")
    assert "relaydeck-audit-head" not in (await sent(scene, receiver.got)).headers
