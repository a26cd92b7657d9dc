"""The core alone: which attempts it makes, how long it pauses, what it sends. No clock and no network takes part."""

from collections.abc import Callable
from typing import Any

import pytest

from relaydeck.client import (
    ConnectFailed,
    ConnectionLost,
    Policies,
    RelayerNotFound,
    Retry,
    ServerError,
    TimedOut,
    TooManyRequests,
    UnexpectedResponse,
)
from relaydeck.client.calls import Call, Outcome, Request, Response
from relaydeck.client.exchange import Exchange, error_of
from tests.client.built import admin, contract

UPDATED = b'{"data":{"id":"p","type":"webhook","url":"u","has_signing_key":false},"success":true}'
EMPTY = b'{"data":[],"pagination":{"current_page":1,"per_page":10,"total_items":0},"success":true}'


def failed(status: int, message: str, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, named, b'{"data":null,"message":"%b","success":false}' % message.encode())


BUSY = failed(429, "Too Many Requests", Retry_After="7")
BROKEN = failed(500, "Internal Server Error")


def lost() -> ConnectionLost:
    """A new one each time: an exchange marks the error that it raises."""
    return ConnectionLost("lost")


def drive(exchange: Exchange, call: Call[Any], outcomes: list[Outcome]) -> tuple[list[Request], list[float], Any]:
    """Answers each request with the next outcome: the requests, the pauses, and the result or the error."""
    requests, pauses, steps = [], [], exchange.run(call)
    answer: Outcome | None = None
    try:
        while True:
            step = steps.send(answer)
            if isinstance(step, Request):
                requests.append(step)
                answer = outcomes[len(requests) - 1]
            else:
                pauses.append(step)
    except StopIteration as done:
        return requests, pauses, done.value
    except Exception as error:
        return requests, pauses, error


def exchange(**retry: Any) -> Exchange:
    return Exchange("", "token", Retry(**retry), share=lambda: 0.5)


def test_pauses_double_and_are_a_random_part() -> None:
    _, pauses, error = drive(exchange(attempts=5, longest_pause=0.4), contract.list_signers(), [lost()] * 5)
    assert (pauses, type(error)) == ([0.05, 0.1, 0.2, 0.2], ConnectionLost)


def test_retry_after_is_waited_for_with_jitter_on_top() -> None:
    requests, pauses, page = drive(exchange(), contract.list_signers(), [BUSY, Response(200, {}, EMPTY)])
    assert (len(requests), pauses, page.items) == (2, [7.05], ())


def test_retry_after_beyond_the_longest_wait_is_raised_at_once() -> None:
    requests, pauses, error = drive(exchange(longest_wait=6), contract.list_signers(), [BUSY])
    assert (len(requests), pauses, type(error), error.retry_after) == (1, [], TooManyRequests, 7.0)


def test_one_attempt_means_one_attempt() -> None:
    requests, pauses, error = drive(exchange(attempts=1), contract.list_signers(), [BROKEN])
    assert (len(requests), pauses, type(error)) == (1, [], ServerError)


NEVER_TWICE = [
    contract.rpc("r", "other", {}),
    admin.update_relayer("r", name="x", if_match='"1"'),
]


@pytest.mark.parametrize("call", NEVER_TWICE, ids=str)
@pytest.mark.parametrize("outcome", [lost, lambda: TimedOut("slow"), lambda: BROKEN], ids=["lost", "timed out", "500"])
def test_what_might_be_two_changes_is_not_repeated(call: Call[Any], outcome: Callable[[], Outcome]) -> None:
    requests, _, error = drive(exchange(), call, [outcome()])
    assert (len(requests), error.uncertain) == (1, True)


@pytest.mark.parametrize("call", NEVER_TWICE, ids=str)
@pytest.mark.parametrize("outcome", [ConnectFailed("no"), BUSY], ids=["no connection", "429"])
def test_what_was_not_carried_out_is_repeated_whatever_it_is(call: Call[Any], outcome: Outcome) -> None:
    requests, _, _ = drive(exchange(attempts=2), call, [outcome, outcome])
    assert len(requests) == 2


def test_a_repeated_post_has_the_same_idempotency_key() -> None:
    requests, _, _ = drive(exchange(attempts=3), admin.pause_relayer("r"), [lost(), BROKEN, lost()])
    keys = {request.headers["Idempotency-Key"] for request in requests}
    assert (len(requests), len(keys)) == (3, 1)


def test_two_posts_have_different_idempotency_keys() -> None:
    one, other = (drive(exchange(), admin.pause_relayer("r"), [BUSY] * 4)[0][0] for _ in range(2))
    assert one.headers["Idempotency-Key"] != other.headers["Idempotency-Key"]


def test_reads_after_a_write_ask_for_its_revision() -> None:
    core = exchange()
    written = Response(200, {"Relaydeck-Revision": "41"}, UPDATED)
    drive(core, contract.update_notification("p"), [written])
    (request,), _, _ = drive(core, contract.list_signers(), [Response(200, {}, EMPTY)])
    assert request.headers["Relaydeck-Min-Revision"] == "41"


def test_an_older_revision_does_not_replace_a_newer_one() -> None:
    core = exchange()
    for revision in ("41", "7"):
        drive(core, contract.update_notification("p"), [Response(200, {"Relaydeck-Revision": revision}, UPDATED)])
    assert core.revision == 41


def test_a_first_read_asks_for_no_revision() -> None:
    (request,), _, _ = drive(exchange(), contract.list_signers(), [Response(200, {}, EMPTY)])
    assert "Relaydeck-Min-Revision" not in request.headers


def test_a_revision_the_service_does_not_know_is_forgotten() -> None:
    """The database was restored from a backup: its revisions start again below the one this client saw."""
    core = exchange()
    core.revision = 41
    unknown = failed(400, "Bad Request", Relaydeck_Reason="Relaydeck-Min-Revision is higher than any revision yet")
    requests, _, page = drive(core, contract.list_signers(), [unknown, Response(200, {}, EMPTY)])
    assert ("Relaydeck-Min-Revision" in requests[1].headers, page.items) == (False, ())


def test_a_path_prefix_of_the_service_is_kept() -> None:
    core = Exchange("/relaydeck", "token", Retry())
    (request,), _, _ = drive(core, contract.list_signers(page=2), [Response(200, {}, EMPTY)])
    assert request.target == "/relaydeck/api/v1/signers?page=2"


@pytest.mark.parametrize(("given", "sent"), [("a/b", "a%2Fb"), ("?x=1", "%3Fx%3D1"), ("é 💥", "%C3%A9%20%F0%9F%92%A5")])
def test_an_identifier_is_one_segment_of_a_path(given: str, sent: str) -> None:
    assert contract.update_notification(given).target == f"/api/v1/notifications/{sent}"


@pytest.mark.parametrize("given", ["", ".", ".."])
def test_an_empty_identifier_or_a_dot_segment_is_refused_before_anything_is_sent(given: str) -> None:
    """A proxy that takes dot segments out of a path would make `deliveries/./replay` replay every delivery."""
    with pytest.raises(ValueError, match="an identifier is empty, or a dot segment"):
        admin.replay_delivery(given)


def test_amounts_of_any_size_stay_exact() -> None:
    body = b'{"data":[%b],"pagination":{"current_page":1,"per_page":10,"total_items":1},"success":true}'
    relayer = (
        b'{"id":"r","name":"R","network":"n","network_type":"evm","address":"0x0","signer_id":"s","paused":false,'
        b'"system_disabled":false,"custom_rpc_urls":[],"policies":{"gas_price_cap":%d,"min_balance":%d}}'
    ) % (2**256 - 1, 2**255)
    _, _, page = drive(exchange(), contract.list_relayers(), [Response(200, {}, body % relayer)])
    assert page.items[0].policies == Policies(gas_price_cap=2**256 - 1, min_balance=2**255)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"data":[{}],"success":true}', b"\xff", b"<html>"], ids=ascii)
def test_a_success_that_is_not_as_described_is_unexpected(body: bytes) -> None:
    _, _, error = drive(exchange(), contract.list_signers(), [Response(200, {}, body)])
    assert (type(error), error.status) == (UnexpectedResponse, 200)


@pytest.mark.parametrize("status", [301, 400, 404, 418])
def test_an_error_without_a_described_body_is_unexpected(status: int) -> None:
    assert type(error_of(Response(status, {}, b"<html>"))) is UnexpectedResponse


def test_a_message_says_more_than_a_status() -> None:
    assert type(error_of(failed(400, "Relayer with ID a not found"))) is RelayerNotFound


def test_a_json_rpc_response_with_another_id_is_unexpected() -> None:
    body = b'{"jsonrpc":"2.0","id":"2","result":{}}'
    _, _, error = drive(exchange(), contract.rpc("r", "m", {}), [Response(200, {}, body)])
    assert type(error) is UnexpectedResponse
