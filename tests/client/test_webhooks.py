"""`verify_webhook` against an independent implementation of Standard Webhooks, and against what must not pass."""

import base64
import hmac
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook

from relaydeck.client import (
    Event,
    MissingHeader,
    StaleTimestamp,
    WebhookError,
    WrongSignature,
    verify_webhook,
)

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(b"another key, 24 bytes long").decode()
NOW = 1_700_000_000
BODY = (
    '{"id":"evt_1","type":"relayer.paused","timestamp":"2026-03-01T12:00:00Z","sequence":42,"version":1,'
    '"data":{"relayer":{"id":"é"}}}'
)
EVENT = Event(
    id="evt_1",
    type="relayer.paused",
    timestamp=datetime(2026, 3, 1, 12, tzinfo=UTC),
    sequence=42,
    version=1,
    data={"relayer": {"id": "é"}},
)


def signed(key: str = KEY, at: int = NOW) -> dict[str, str]:
    """Signed by the other implementation."""
    signature = Webhook(key).sign("evt_1", datetime.fromtimestamp(at, UTC), BODY)
    return {"Webhook-Id": "evt_1", "WEBHOOK-TIMESTAMP": str(at), "webhook-signature": signature}


def test_a_signed_message_is_its_event() -> None:
    assert verify_webhook(signed(), BODY.encode(), KEY, now=NOW) == EVENT


def test_one_right_signature_of_several_is_enough() -> None:
    headers = signed()
    headers["webhook-signature"] = (
        f"v1a,AAAA v1,AAAA {signed(OTHER)['webhook-signature']} {headers['webhook-signature']}"
    )
    assert verify_webhook(headers, BODY.encode(), KEY, now=NOW) == EVENT


def test_one_right_key_of_several_is_enough() -> None:
    assert verify_webhook(signed(), BODY.encode(), ["a plain key", OTHER, KEY], now=NOW) == EVENT


@pytest.mark.parametrize("key", ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_YQ", "whsec_YQ=="])
def test_a_prefixed_key_is_used_decoded_with_and_without_padding(key: str) -> None:
    padded = key + "=" * (-len(key.removeprefix("whsec_")) % 4)
    assert verify_webhook(signed(padded), BODY.encode(), key, now=NOW) == EVENT


@pytest.mark.parametrize("key", ["a signing key", "é💥", "whsec_not base64!", "whsec_", "MfKQ"])
def test_any_other_key_is_used_by_its_bytes(key: str) -> None:
    encoded = "whsec_" + base64.b64encode(key.encode()).decode()
    assert verify_webhook(signed(encoded), BODY.encode(), key, now=NOW) == EVENT


@pytest.mark.parametrize("away", [-301, 301])
def test_a_message_from_another_time_is_stale(away: int) -> None:
    with pytest.raises(StaleTimestamp):
        verify_webhook(signed(at=NOW + away), BODY.encode(), KEY, now=NOW)


@pytest.mark.parametrize("away", [-300, 300])
def test_the_tolerance_is_five_minutes(away: int) -> None:
    assert verify_webhook(signed(at=NOW + away), BODY.encode(), KEY, now=NOW) == EVENT


def test_the_tolerance_can_be_chosen() -> None:
    with pytest.raises(StaleTimestamp):
        verify_webhook(signed(at=NOW - 11), BODY.encode(), KEY, now=NOW, tolerance=10)


@pytest.mark.parametrize("timestamp", ["x", "1.5", "-1", "١٢", "9" * 30])
def test_a_timestamp_that_is_no_number_is_stale(timestamp: str) -> None:
    with pytest.raises(StaleTimestamp):
        verify_webhook(signed() | {"WEBHOOK-TIMESTAMP": timestamp}, BODY.encode(), KEY, now=NOW)


@pytest.mark.parametrize("name", ["Webhook-Id", "WEBHOOK-TIMESTAMP", "webhook-signature"])
def test_each_header_is_needed(name: str) -> None:
    headers = {each: value for each, value in signed().items() if each != name}
    with pytest.raises(MissingHeader, match=name.lower()):
        verify_webhook(headers, BODY.encode(), KEY, now=NOW)


@pytest.mark.parametrize("name", ["Webhook-Id", "WEBHOOK-TIMESTAMP", "webhook-signature"])
@pytest.mark.parametrize("given", [["a", "b"], None, b"a", 5, ""])
def test_each_header_is_one_text(name: str, given: Any) -> None:
    with pytest.raises(MissingHeader, match=name.lower()):
        verify_webhook(signed() | {name: given}, BODY.encode(), KEY, now=NOW)


@pytest.mark.parametrize(
    "changed",
    [
        {"Webhook-Id": "evt_2"},
        {"WEBHOOK-TIMESTAMP": str(NOW + 1)},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v2," + signed()["webhook-signature"].removeprefix("v1,")},
        {"webhook-signature": signed()["webhook-signature"].removeprefix("v1,")},
        {"webhook-signature": "v1,é"},
        {"webhook-signature": "v1,\udce9"},
        {"Webhook-Id": "evt_\udce9"},
        {"webhook-signature": "v1,not base64!"},
        {"webhook-signature": f"{signed()['webhook-signature']}, {signed()['webhook-signature']}x"},
    ],
    ids=["id", "timestamp", "empty", "version", "no version", "not ASCII", "bytes", "id of bytes", "base64", "twice"],
)
def test_what_was_changed_on_the_way_is_refused(changed: dict[str, str]) -> None:
    with pytest.raises(WrongSignature):
        verify_webhook(signed() | changed, BODY.encode(), KEY, now=NOW)


def test_a_changed_body_is_refused() -> None:
    with pytest.raises(WrongSignature):
        verify_webhook(signed(), BODY.encode() + b" ", KEY, now=NOW)


@pytest.mark.parametrize("keys", ["", [""], ["", KEY]])
def test_an_empty_key_verifies_nothing(keys: str | list[str]) -> None:
    """Such as that of a variable that is not set: anybody can sign with it."""
    content = f"evt_1.{NOW}.{BODY}".encode()
    signature = base64.b64encode(hmac.digest(b"", content, "sha256")).decode()
    with pytest.raises(WrongSignature):
        verify_webhook(signed() | {"webhook-signature": f"v1,{signature}"}, BODY.encode(), keys, now=NOW)


def test_no_key_verifies_nothing() -> None:
    with pytest.raises(WrongSignature):
        verify_webhook(signed(), BODY.encode(), [], now=NOW)


def test_an_error_does_not_show_the_key() -> None:
    with pytest.raises(WrongSignature) as caught:
        verify_webhook(signed(), BODY.encode(), "planted", now=NOW)
    assert "planted" not in repr(caught.value)


def test_a_signed_message_that_is_no_event_is_an_error() -> None:
    body = "[]"
    signature = Webhook(KEY).sign("evt_1", datetime.fromtimestamp(NOW, UTC), body)
    headers = {"webhook-id": "evt_1", "webhook-timestamp": str(NOW), "webhook-signature": signature}
    with pytest.raises(WebhookError, match="not an event"):
        verify_webhook(headers, body.encode(), KEY, now=NOW)
