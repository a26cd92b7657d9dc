"""Section 8 of the contract: limits."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import RELAYERS_SHOWN
from tests.support import shapes
from tests.support.places import ENGINES
from tests.support.running import Answer, Running
from tests.support.seeding import fill, issue, relayer

SIGNERS = "/api/v1/signers"
RELAYERS = "/api/v1/relayers"
RPC = "/api/v1/relayers/one/rpc"
CALL = {"jsonrpc": "2.0", "id": 1, "method": "none", "params": {}}
LIMITED = [("GET", RELAYERS, None), ("POST", RPC, CALL)]
UNLIMITED: list[tuple[str, str, dict[str, Any] | None]] = [
    ("POST", SIGNERS, {}),
    ("GET", SIGNERS, None),
    ("PATCH", "/api/v1/notifications/pager", {}),
    ("GET", "/healthz", None),
]


@pytest.fixture(scope="module", params=ENGINES)
def limited(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, put: Callable[[Path, str], Path]
) -> Iterator[Running]:
    """Three requests at once, then one a second; the largest page holds five, the largest body a kilobyte."""
    home = put(tmp_path_factory.mktemp("limits") / "home", request.param)
    fill(home, notifications={"pager": None}, relayers=[relayer("one")])
    with Running(
        home,
        token=issue(home),
        rate_limit_per_second="1",
        rate_limit_burst="3",
        max_per_page="5",
        max_body_bytes="1024",
    ) as running:
        yield running


@pytest.fixture
def fresh(limited: Running, request: pytest.FixtureRequest) -> str:
    """A token with a full bucket."""
    return issue(limited.home, request.node.name)


def until_refused(running: Running, token: str, method: str = "GET", path: str = RELAYERS, body: Any = None) -> Answer:
    for _ in range(1000):
        answer = running.ask(method, path, body, token=token)
        if answer.status == 429:
            return answer
    raise AssertionError("never refused")


# sentence: 8-limited
@pytest.mark.parametrize(("method", "path", "body"), LIMITED, ids=["list relayers", "rpc"])
def test_8_rate_limiting_can_answer_too_many_requests(
    limited: Running, fresh: str, method: str, path: str, body: Any
) -> None:
    answer = until_refused(limited, fresh, method, path, body)
    assert (answer.status, answer.json) == (429, shapes.TOO_MANY)


# sentence: 8-rate
@pytest.mark.parametrize(("method", "path", "body"), LIMITED, ids=["list relayers", "rpc"])
def test_8_the_burst_is_admitted(limited: Running, fresh: str, method: str, path: str, body: Any) -> None:
    assert [limited.ask(method, path, body, token=fresh).status for _ in range(3)] == [200] * 3


def test_8_a_refusal_says_when_to_come_back(limited: Running, fresh: str) -> None:
    assert until_refused(limited, fresh).headers["retry-after"] == "1"


def test_8_answers_tell_the_policy_and_what_remains(limited: Running, fresh: str) -> None:
    headers = limited.ask("GET", RELAYERS, token=fresh).headers
    assert (headers["ratelimit-policy"], headers["ratelimit"]) == ('"default";q=3;w=3', '"default";r=2;t=1')


# sentence: 8-rate
def test_8_both_operations_take_from_one_bucket(limited: Running, fresh: str) -> None:
    began = time.monotonic()
    statuses = [limited.ask(*operation, token=fresh).status for operation in LIMITED * 5]
    assert statuses.count(200) <= 3 + (time.monotonic() - began)


def test_8_each_credential_has_its_own_bucket(limited: Running, fresh: str) -> None:
    until_refused(limited, fresh)
    assert limited.ask("GET", RELAYERS, token=issue(limited.home, "neighbour")).status == 200


@pytest.mark.parametrize(("method", "path", "body"), UNLIMITED)
def test_8_no_other_operation_is_limited(limited: Running, fresh: str, method: str, path: str, body: Any) -> None:
    until_refused(limited, fresh)
    assert 429 not in [limited.ask(method, path, body, token=fresh).status for _ in range(10)]


def test_8_the_rate_is_looked_at_after_the_credential(limited: Running, fresh: str) -> None:
    until_refused(limited, fresh)
    assert limited.ask("GET", RELAYERS, token="wrong").json == shapes.UNAUTHORIZED


def test_8_the_rate_is_looked_at_before_the_body(limited: Running, fresh: str) -> None:
    assert until_refused(limited, fresh, "POST", RPC, b"{" + b" " * 5000).json == shapes.TOO_MANY


def test_8_no_limit_is_applied_when_it_is_zero(contract: Running) -> None:
    assert "ratelimit" not in contract.ask("GET", RELAYERS).headers


# sentence: 4.2-per-page 4.4-per-page
@pytest.mark.parametrize("path", [SIGNERS, RELAYERS])
def test_8_per_page_defaults_to_10(contract: Running, path: str) -> None:
    assert contract.ask("GET", path).json["pagination"]["per_page"] == 10


# sentence: 4.2-page 4.4-page
@pytest.mark.parametrize("path", [SIGNERS, RELAYERS])
@pytest.mark.parametrize("name", ["page", "per_page"])
@pytest.mark.parametrize("value", ["0", "1", "007", "18446744073709551616", "9" * 5000], ids=lambda v: v[:10])
def test_8_page_and_per_page_accept_integers_of_at_least_0(contract: Running, path: str, name: str, value: str) -> None:
    assert contract.ask("GET", f"{path}?{name}={value}").status == 200


@pytest.mark.parametrize("path", [SIGNERS, RELAYERS])
@pytest.mark.parametrize("name", ["page", "per_page"])
@pytest.mark.parametrize(
    "value", ["-1", "-0", "%2B1", "+1", "1e3", "1.0", "0x1", "1_0", "%D9%A1", "true", "", "%20", "1,2"]
)
def test_8_page_and_per_page_accept_nothing_else(contract: Running, path: str, name: str, value: str) -> None:
    answer = contract.ask("GET", f"{path}?{name}={value}")
    assert (answer.status, answer.json) == (400, shapes.BAD_REQUEST)


def test_8_pages_start_at_1(contract: Running) -> None:
    assert contract.ask("GET", f"{RELAYERS}?page=1&per_page=1").json == shapes.page(RELAYERS_SHOWN[:1], 1, 1, 12)


def test_8_a_page_number_of_5000_digits_is_told_as_it_was_asked(contract: Running) -> None:
    body = contract.ask("GET", f"{RELAYERS}?page={'9' * 5000}").body
    assert b'"current_page":' + b"9" * 5000 + b"," in body


# sentence: 8-largest-page
def test_8_the_largest_page_is_told(limited: Running, fresh: str) -> None:
    answer = limited.ask("GET", f"{SIGNERS}?per_page=999999", token=fresh)
    assert answer.json == shapes.page(
        [{"id": "ops", "type": "local", "config": {}}], 1, 5, 1, "per_page was reduced to the largest allowed, 5"
    )


def test_8_a_default_page_is_no_larger_than_the_largest(limited: Running, fresh: str) -> None:
    assert limited.ask("GET", SIGNERS, token=fresh).json["pagination"]["per_page"] == 5


def body_of(size: int) -> bytes:
    text = b'{"type":"plain","config":{"key":"k"},"id":"sized"}'
    return text + b" " * (size - len(text))


def test_8_a_body_of_the_largest_size_is_read(limited: Running, fresh: str) -> None:
    assert limited.ask("POST", SIGNERS, body_of(1024), token=fresh).status == 201


# sentence: 8-request-size
def test_8_a_larger_body_is_refused(limited: Running, fresh: str) -> None:
    answer = limited.ask("POST", SIGNERS, body_of(1025), token=fresh)
    assert (answer.status, answer.json) == (413, shapes.BAD_REQUEST)
