"""Identifiers of any characters work everywhere: in bodies and, percent-encoded, in paths."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support import shapes
from tests.support.places import ENGINES
from tests.support.running import Running, in_path
from tests.support.seeding import WEBHOOK, fill, issue, relayer, relayer_shown

IDENTIFIERS = [
    "a/b",
    "/",
    "//",
    "/api/v1/signers",
    "../../etc",
    " ",
    " a  b ",
    "💥",
    "👩‍👩‍👧",
    "x" * 255,
    "é" * 255,
    "💥" * 255,
    "%",
    "%2F",
    "100%",
    "%zz",
    "...",
    ".a",
    "a.",
    "a.b.c",
    "?page=1",
    "#",
    "a&b=c",
    "a+b",
    ";",
    "\\",
    '"',
    "'",
    "<b>",
    "{}",
    "null",
    "0",
    "-1",
    "rpc",
    "é",
    "e\u0301",
    "\u00a0",
    "\u200b",
    "\u202e",
    "\ufeff",
    "\U0010ffff",
    "ops; DROP TABLE signers",
    "日本",
]
each_identifier = pytest.mark.parametrize("identifier", IDENTIFIERS, ids=lambda text: ascii(text)[:24])


@pytest.fixture(scope="module", params=ENGINES)
def named(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, put: Callable[[Path, str], Path]
) -> Iterator[Running]:
    """A notification and a relayer of every identifier."""
    home = put(tmp_path_factory.mktemp("named") / "home", request.param)
    fill(home, notifications=dict.fromkeys(IDENTIFIERS), relayers=[relayer(name) for name in IDENTIFIERS])
    with Running(home, token=issue(home), rate_limit_per_second="0") as running:
        yield running


@each_identifier
def test_a_signer_is_created_under_it(named: Running, identifier: str) -> None:
    answer = named.ask("POST", "/api/v1/signers", shapes.request("plain", id=identifier))
    assert (answer.status, answer.json) == (
        201,
        shapes.success({"id": identifier, "type": "local", "config": {}}),
    )


def test_every_signer_is_listed_under_it(named: Running) -> None:
    for identifier in IDENTIFIERS:  # whichever of them the tests above have not made
        named.ask("POST", "/api/v1/signers", shapes.request("plain", id=identifier))
    listed = named.ask("GET", "/api/v1/signers?per_page=1000").json["data"]
    assert sorted(signer["id"] for signer in listed) == sorted(["ops", *IDENTIFIERS])


@each_identifier
def test_a_signer_is_refused_where_it_is_taken(named: Running, identifier: str) -> None:
    named.ask("POST", "/api/v1/signers", shapes.request("plain", id=identifier))
    answer = named.ask("POST", "/api/v1/signers", shapes.request("plain", id=identifier))
    assert (answer.status, answer.json) == (409, shapes.EXISTS)


def everything_encoded(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


@each_identifier
@pytest.mark.parametrize("encode", [in_path, everything_encoded])
def test_a_notification_is_found_by_it(named: Running, identifier: str, encode: Any) -> None:
    answer = named.ask("PATCH", f"/api/v1/notifications/{encode(identifier)}", {})
    assert (answer.status, answer.json) == (
        200,
        shapes.success({"id": identifier, "type": "webhook", "url": WEBHOOK, "has_signing_key": False}),
    )


@each_identifier
@pytest.mark.parametrize("encode", [in_path, everything_encoded])
def test_a_relayer_is_found_by_it(named: Running, identifier: str, encode: Any) -> None:
    body = {"jsonrpc": "2.0", "id": identifier, "method": "none", "params": {}}
    answer = named.ask("POST", f"/api/v1/relayers/{encode(identifier)}/rpc", body)
    assert (answer.status, answer.json["id"]) == (200, identifier)


@each_identifier
def test_an_unknown_relayer_is_told_by_it(contract: Running, identifier: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "none", "params": {}}
    answer = contract.ask("POST", f"/api/v1/relayers/{in_path(identifier)}/rpc", body)
    assert (answer.status, answer.json) == (404, shapes.failure(f"Relayer with ID {identifier} not found"))


def test_every_relayer_is_listed_under_it(named: Running) -> None:
    assert named.ask("GET", "/api/v1/relayers?per_page=1000").json["data"] == [
        relayer_shown(name) for name in IDENTIFIERS
    ]


@pytest.mark.parametrize("identifier", ["a.b.c", "a&b=c", "a+b", ";", "'", "..."])
def test_characters_that_need_no_encoding_are_found_without(named: Running, identifier: str) -> None:
    path = f"/api/v1/notifications/{quote(identifier, safe='&=+;:@,$!*()' + chr(39))}"
    assert named.ask("PATCH", path, {}).json["data"]["id"] == identifier


def test_two_ways_to_write_one_letter_are_two_identifiers(named: Running) -> None:
    found = [named.ask("PATCH", f"/api/v1/notifications/{in_path(name)}", {}).json for name in ("é", "e\u0301")]
    assert [answer["data"]["id"] for answer in found] == ["é", "e\u0301"]
