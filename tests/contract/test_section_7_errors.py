"""Section 7 of the contract: the error body and its seven messages."""

import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from relaydeck.store.write_signal import WriteSignal
from tests.support import shapes
from tests.support.places import ENGINES
from tests.support.running import Answer, Running, children
from tests.support.seeding import fill, issue, relayer

SIGNERS = "/api/v1/signers"
RELAYERS = "/api/v1/relayers"
NOTIFICATION = "/api/v1/notifications/pager"
RPC = "/api/v1/relayers/one/rpc"
CALL = {"jsonrpc": "2.0", "id": 1, "method": "none", "params": {}}


@pytest.fixture(scope="module", params=ENGINES)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, put: Callable[[Path, str], Path]
) -> Iterator[Running]:
    """A service of this module's own, on each database."""
    home = put(tmp_path_factory.mktemp("errors") / "home", request.param)
    fill(home, notifications={"pager": None}, relayers=[relayer("one")])
    with Running(home, token=issue(home), rate_limit_per_second="0") as running:
        yield running


@pytest.fixture(scope="module")
def breakable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with a store that fails for a moment. (tests/test_replicas.py covers a failing database server.)"""
    home = tmp_path_factory.mktemp("breakable") / "home"
    fill(home, notifications={"pager": None}, relayers=[relayer("one")])
    with Running(home, token=issue(home), rate_limit_per_second="0") as running:
        yield running


def reported(answer: Answer) -> tuple[int, dict[str, Any]]:
    return answer.status, answer.json


# sentence: 7-statuses 7-messages
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", SIGNERS, {}),
        ("GET", f"{SIGNERS}?page=x", None),
        ("PATCH", NOTIFICATION, {"url": 1}),
        ("GET", f"{RELAYERS}?page=x", None),
        ("POST", RPC, {}),
    ],
)
def test_7_bad_request_for_an_invalid_request_on_all(served: Running, method: str, path: str, body: Any) -> None:
    assert reported(served.ask(method, path, body)) == (400, shapes.BAD_REQUEST)


# sentence: 7-statuses 7-messages
@pytest.mark.parametrize("token", ["", "wrong"], ids=["missing", "invalid"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", SIGNERS, shapes.request("plain")),
        ("GET", SIGNERS, None),
        ("PATCH", NOTIFICATION, {}),
        ("GET", RELAYERS, None),
        ("POST", RPC, CALL),
    ],
)
def test_7_unauthorized_for_missing_or_invalid_credentials_on_all(
    served: Running, method: str, path: str, body: Any, token: str
) -> None:
    assert reported(served.ask(method, path, body, token=token)) == (401, shapes.UNAUTHORIZED)


# sentence: 7-statuses 7-messages
def test_7_signer_with_this_id_already_exists_when_the_given_signer_id_is_taken(served: Running) -> None:
    assert reported(served.ask("POST", SIGNERS, shapes.request("plain", id="ops"))) == (
        409,
        {"data": None, "message": "Signer with this ID already exists", "success": False},
    )


# sentence: 7-statuses 7-messages
def test_7_notification_not_found_for_an_unknown_notification_id(served: Running) -> None:
    assert reported(served.ask("PATCH", "/api/v1/notifications/nobody", {})) == (
        404,
        {"data": None, "message": "Notification not found", "success": False},
    )


# sentence: 7-statuses 7-messages
def test_7_relayer_with_id_not_found_for_an_unknown_relayer_id(served: Running) -> None:
    assert reported(served.ask("POST", "/api/v1/relayers/nobody/rpc", CALL)) == (
        404,
        {"data": None, "message": "Relayer with ID nobody not found", "success": False},
    )


@pytest.fixture(scope="module", params=ENGINES)
def used_up(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, put: Callable[[Path, str], Path]
) -> Iterator[Running]:
    """One request now, and the next one in a day."""
    home = put(tmp_path_factory.mktemp("used-up") / "home", request.param)
    fill(home, relayers=[relayer("one")])
    with Running(home, token=issue(home), rate_limit_per_second="1", rate_limit_burst="1") as running:
        yield running


def until_refused(running: Running, method: str, path: str, body: Any) -> Answer:
    """The first answer that is no success; a client this fast meets it at once."""
    for _ in range(1000):
        answer = running.ask(method, path, body)
        if answer.status != 200:
            return answer
    raise AssertionError("never refused")


# sentence: 7-messages 8-limited
@pytest.mark.parametrize(("method", "path", "body"), [("GET", RELAYERS, None), ("POST", RPC, CALL)])
def test_7_too_many_requests_when_the_rate_is_exceeded(used_up: Running, method: str, path: str, body: Any) -> None:
    assert reported(until_refused(used_up, method, path, body)) == (
        429,
        {"data": None, "message": "Too Many Requests", "success": False},
    )


@contextmanager
def store_that_cannot_be_read(home: Path) -> Iterator[None]:
    """Removes the table that every reader reads first, and signals a write so that the service reads it."""
    connection = sqlite3.connect(home / "relaydeck.db", isolation_level=None)
    write_signal = WriteSignal(home / "run" / "write-signal")
    try:
        connection.execute("ALTER TABLE clock RENAME TO taken_away")
        write_signal.send(of_tokens=True)
        yield
    finally:
        connection.execute("ALTER TABLE taken_away RENAME TO clock")
        write_signal.send(of_tokens=True)
        connection.close()


# sentence: 7-messages 7-server-failure
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", SIGNERS, shapes.request("plain")),
        ("GET", SIGNERS, None),
        ("PATCH", NOTIFICATION, {}),
        ("GET", RELAYERS, None),
        ("POST", RPC, CALL),
    ],
)
def test_7_internal_server_error_for_a_server_failure_on_all(
    breakable: Running, method: str, path: str, body: Any
) -> None:
    with store_that_cannot_be_read(breakable.home):
        assert reported(breakable.ask(method, path, body)) == (
            500,
            {"data": None, "message": "Internal Server Error", "success": False},
        )


def test_7_a_service_recovers_from_a_server_failure_by_itself(breakable: Running) -> None:
    with store_that_cannot_be_read(breakable.home):
        breakable.ask("GET", SIGNERS)
    assert breakable.ask("GET", SIGNERS).status == 200


@contextmanager
def disk_that_takes_nothing(running: Running) -> Iterator[None]:
    """No process of the service can make a file longer."""
    processes = [running.process.pid, *children(running.process.pid)]
    limits = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in processes}
    try:
        for pid, (_, hard) in limits.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))
        yield
    finally:
        for pid, limit in limits.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("POST", SIGNERS, shapes.request("plain")), ("PATCH", NOTIFICATION, {"signing_key": "k"})],
)
def test_7_internal_server_error_when_a_write_cannot_reach_the_disk(
    breakable: Running, method: str, path: str, body: Any
) -> None:
    with disk_that_takes_nothing(breakable):
        assert reported(breakable.ask(method, path, body)) == (500, shapes.SERVER_FAILURE)


def test_7_a_failed_create_leaves_no_signer(breakable: Running) -> None:
    before = breakable.ask("GET", f"{SIGNERS}?per_page=1000").json
    with disk_that_takes_nothing(breakable):
        breakable.ask("POST", SIGNERS, shapes.request("plain", id="never"))
    assert breakable.ask("GET", f"{SIGNERS}?per_page=1000").json == before


def test_7_lists_are_served_while_writes_fail(breakable: Running) -> None:
    with disk_that_takes_nothing(breakable):
        assert (breakable.ask("GET", SIGNERS).status, breakable.ask("GET", RELAYERS).status) == (200, 200)


def test_7_writes_work_again_once_the_disk_does(breakable: Running) -> None:
    with disk_that_takes_nothing(breakable):
        breakable.ask("POST", SIGNERS, shapes.request("plain"))
    assert breakable.ask("POST", SIGNERS, shapes.request("plain")).status == 201


# sentence: 7-method-failures
def test_7_method_level_failures_are_in_the_error_object(served: Running) -> None:
    answer = served.ask("POST", RPC, CALL)
    assert (answer.status, answer.json) == (
        200,
        {
            "jsonrpc": "2.0",
            "id": "1",
            "error": {"code": -32601, "message": "Method not found", "description": "feeEstimate is the only method."},
        },
    )


# sentence: 7-reason
def test_7_the_reason_is_in_a_header_and_not_in_the_body(served: Running) -> None:
    answer = served.ask("POST", SIGNERS, {"type": "plain", "config": {"key": 1}})
    assert (answer.json, answer.headers["relaydeck-reason"]) == (
        shapes.BAD_REQUEST,
        "Expected str - at $.config.key",
    )


@pytest.mark.parametrize(
    "body",
    [
        {"type": "planted - at `planted", "config": {}},
        {"type": "planted` - at `$.planted\r\nplanted: 1", "config": {}},
        {"type": "plain", "config": {"key": "k"}, "planted": 1},
        {"type": "plain", "config": {"key": "k"}, "planted` - at `$.planted": 1},
        {"type": "plain", "config": {"key": "k", "planted` - at `$.planted": 1}},
        {"type": "plain", "config": {"key": ["planted"]}},
        {"type": "plain", "config": {"key": "k"}, "id": "planted" * 50},
    ],
    ids=ascii,
)
def test_7_the_reason_never_quotes_what_was_sent(served: Running, body: Any) -> None:
    answer = served.ask("POST", SIGNERS, body)
    assert (answer.status, answer.json, "planted" in str(answer.headers)) == (400, shapes.BAD_REQUEST, False)
