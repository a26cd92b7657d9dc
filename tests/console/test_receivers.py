"""The page of a receiver: its health, what waits and why, and sending what waits now."""

import base64
import hashlib
import hmac
import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relaydeck.signers import check_results
from relaydeck.signers.check import SignerCheck
from tests.console.conftest import Operator, plain
from tests.support.running import Answer, Running, eventually
from tests.support.seeding import fill, issue, opened, relayer
from tests.support.verifying import VerifyingReceiver, verifying_receiver

LATER = {"Retry-After": "3600"}


@pytest.fixture(scope="module")
def receiver() -> Iterator[VerifyingReceiver]:
    with verifying_receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory, receiver: VerifyingReceiver) -> Iterator[Running]:
    """Served, with a relayer whose events go to a receiver on loopback."""
    home: Path = tmp_path_factory.mktemp("hooked") / "home"
    fill(home, notifications={"pager": receiver.key}, relayers=[relayer("r0", notification_id="pager"), relayer("r1")])
    settings: dict[str, Any] = {"monitor_interval_seconds": "0", "webhook_allow": "127.0.0.0/8"}
    with Running(home, token=issue(home, "root", "admin"), **settings) as running:
        change = running.ask("PATCH", "/admin/v1/notifications/pager", {"url": receiver.url})
        assert change.status == 200, change.json
        yield running


@pytest.fixture
def person(hooked: Running) -> Operator:
    return Operator(hooked.port).sign_in(hooked.token)


def deliveries(hooked: Running) -> list[dict[str, Any]]:
    """The newest first."""
    found = hooked.ask("GET", "/admin/v1/deliveries?notification_id=pager&order=newest").json["data"]
    return list(found)


def fails(hooked: Running, receiver: VerifyingReceiver) -> None:
    """Two events of a relayer: the first attempt of the earlier one fails, and nothing is tried for an hour."""
    receiver.status, receiver.headers = 503, LATER
    for change in ("pause", "resume"):
        assert hooked.ask("POST", f"/admin/v1/relayers/r0/{change}").status == 200
    receiver.next()
    eventually(lambda: deliveries(hooked)[1]["tries"] == 1)


def recovers(receiver: VerifyingReceiver) -> None:
    receiver.status, receiver.headers = 204, {}


def section(answer: Answer, name: str) -> str:
    """The text of a part of the page."""
    (found,) = re.findall(rf'<section aria-labelledby="{name}">(.*?)</section>', answer.body.decode(), re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", found)).split())


def test_what_fails_and_waits_is_shown_and_sent_now_in_order(
    hooked: Running, receiver: VerifyingReceiver, person: Operator
) -> None:
    fails(hooked, receiver)
    page = person.get("/notifications/pager")
    assert "receiver failing" in plain(page) and "receiver failing" in plain(person.get("/notifications"))
    assert "failing Nothing has arrived since an attempt failed" in section(page, "health")
    waits = section(page, "waiting")
    assert (
        "1 attempt failed: HTTP 503 Service Unavailable" in waits
        and "an earlier event of the relayer comes first" in waits
    )
    assert "Send 2 now …" in waits
    assert "Nothing has arrived since an attempt failed" in plain(person.get(""))

    recovers(receiver)
    asked = person.get("/notifications/pager/send")
    assert "Send 2 waiting events to pager now?" in plain(asked)
    sent = person.post("/notifications/pager/send")
    assert (sent.status, sent.headers["location"]) == (303, "/console/notifications/pager?done=replayed")
    assert [receiver.next()["type"] for _ in range(2)] == ["relayer.paused", "relayer.resumed"]
    eventually(lambda: {each["state"] for each in deliveries(hooked)[:2]} == {"delivered"})
    (entry,) = hooked.ask("GET", "/admin/v1/audit?record=pager&order=newest&per_page=1").json["data"]
    assert (entry["action"], entry["after"]) == ("notification.resent", {"count": 1})

    page = person.get("/notifications/pager")
    assert section(page, "waiting").startswith("What waits Nothing.")
    assert "ok The latest attempt to reach it succeeded." in section(page, "health")
    assert "failing" not in plain(person.get("/notifications")) + plain(person.get(""))
    assert "2 arrived, 1 failed" in section(page, "health")
    assert "Nothing waits for" in plain(person.get("/notifications/pager/send"))


def test_an_attempt_before_its_time_that_fails_does_not_count(
    hooked: Running, receiver: VerifyingReceiver, person: Operator
) -> None:
    fails(hooked, receiver)
    scheduled = deliveries(hooked)[1]["next_try_at"]
    assert person.post("/notifications/pager/send").status == 303
    receiver.next()
    path = f"/admin/v1/deliveries/{deliveries(hooked)[1]['id']}"
    eventually(lambda: len(hooked.ask("GET", path).json["data"]["attempts"]) == 2)
    waiting = deliveries(hooked)[1]
    assert (waiting["tries"], waiting["next_try_at"] >= scheduled) == (1, True)
    recovers(receiver)
    assert person.post("/notifications/pager/send").status == 303
    assert [receiver.next()["type"] for _ in range(2)] == ["relayer.paused", "relayer.resumed"]


def test_the_example_of_a_signature_is_right(person: Operator) -> None:
    page = html.unescape(person.text("/notifications/pager"))
    name, moment, signature = re.findall(r"webhook-(?:id|timestamp|signature): (.+)", page)[:3]
    (body,), (key,) = (
        re.findall(r'^(\{"type".*\})</pre>', page, re.MULTILINE),
        re.findall("key <code>(.*)</code>. In", page),
    )
    digest = hmac.digest(key.encode(), f"{name}.{moment}.{body}".encode(), hashlib.sha256)
    assert signature == f"v1,{base64.b64encode(digest).decode()}"


def test_who_may_not_send_has_no_button(hooked: Running) -> None:
    looker = Operator(hooked.port).sign_in(issue(hooked.home, "looker", "readonly"))
    assert "/send" not in looker.text("/notifications/pager")
    assert looker.post("/notifications/pager/send").status == 403


def test_an_unknown_receiver_is_not_found(hooked: Running, person: Operator) -> None:
    assert person.get("/notifications/nobody/send").status == 404
    assert person.post("/notifications/nobody/send").status == 404


def test_a_list_shows_the_worst_problem_beside_the_state(hooked: Running, person: Operator) -> None:
    with opened(hooked.home) as store, store.database.transaction() as transaction:
        check = SignerCheck("ops", 9000, 5, "wrong_key_kind", "not on secp256k1", failing_since=1000)
        check_results.keep(transaction, check, "unreachable")
    listed = re.findall('<td[^>]*><span class="badge [a-z]+">(.*?)</td>', person.text("/signers"))
    assert [re.sub("<[^>]*>", "", each) for each in listed] == ["wrong key kind signer unreachable"]
    for path in ("/signers/ops", "/networks/dev"):  # one word for the state, and the worst problem
        assert section(person.get(path), "used").count("active signer unreachable") == 2
    assert plain(person.get("/find?text=r0")).count("active signer unreachable") == 1
