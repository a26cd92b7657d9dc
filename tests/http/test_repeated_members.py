"""A member that is repeated in a JSON object: the last one counts (RFC 8259, section 4, leaves it open)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admin.conftest import success
from tests.support import shapes
from tests.support.running import Running
from tests.support.seeding import WEBHOOK, fill, issue, relayer

CONFIG = b'"config":{"key":"x","key":"%b"}' % (b"11" * 32)  # a hint would report the first key
RPC = "/api/v1/relayers/r1/rpc"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home: Path = tmp_path_factory.mktemp("repeated") / "home"
    fill(home, notifications={"pager": None}, relayers=[relayer("r1")])
    with Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="0") as running:
        yield running


def test_the_last_member_of_a_new_signer_counts(running: Running) -> None:
    answer = running.ask("POST", "/api/v1/signers", b'{"id":"a","id":"b","type":"plain",%b}' % CONFIG)
    assert (answer.status, answer.json) == (201, success({"id": "b", "type": "local", "config": {}}))


def test_another_type_of_a_new_signer_is_refused(running: Running) -> None:
    answer = running.ask("POST", "/api/v1/signers", b'{"id":"c","type":"provider_d","type":"plain",%b}' % CONFIG)
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


@pytest.mark.parametrize(("keys", "has_key"), [((b"", b"k"), True), ((b"k", b""), False)])
def test_the_last_member_of_a_change_counts(running: Running, keys: tuple[bytes, bytes], has_key: bool) -> None:
    body = b'{"signing_key":"%b","signing_key":"%b"}' % keys
    answer = running.ask("PATCH", "/api/v1/notifications/pager", body)
    pager = {"id": "pager", "type": "webhook", "url": WEBHOOK, "has_signing_key": has_key}
    assert (answer.status, answer.json["data"]) == (200, pager)


def test_the_last_member_of_a_call_counts(running: Running) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"id":2,"method":"feeEstimate","method":"none","params":[],"params":{}}'
    error = {"code": -32601, "message": "Method not found", "description": "feeEstimate is the only method."}
    assert running.ask("POST", RPC, body).json == {"jsonrpc": "2.0", "id": "2", "error": error}


def test_the_last_of_the_params_counts(running: Running) -> None:
    params = b'{"fee_token":"ETH","network":"dev","transaction":"0xff","transaction":"0x00"}'
    body = b'{"jsonrpc":"2.0","id":1,"method":"feeEstimate","params":%b}' % params
    error = {"code": -32602, "message": "Invalid params", "description": "transaction type 0 is not supported"}
    assert running.ask("POST", RPC, body).json == {"jsonrpc": "2.0", "id": "1", "error": error}


def test_the_last_member_of_an_admin_body_counts(running: Running) -> None:
    body = b'{"id":"d","id":"e","type":"provider_d","type":"plain",%b}' % CONFIG
    answer = running.ask("POST", "/admin/v1/signers", body)
    assert (answer.status, answer.json["data"]["id"], answer.json["data"]["type"]) == (201, "e", "local")


def test_an_earlier_member_of_the_wrong_type_may_be_refused(running: Running) -> None:
    bodies = [b'{"name":5,"name":"t","kind":"api"}', b'{"name":"s","name":"t","kind":"api"}']
    answers = [running.ask("POST", "/admin/v1/tokens", body) for body in bodies]
    assert [answer.status for answer in answers] == [400, 201]
    assert answers[1].json["data"]["name"] == "t"
