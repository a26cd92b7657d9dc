"""Input of any kind that is not described: the described error body, never a 500, and nothing changed."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import served
from tests.support import shapes
from tests.support.places import ENGINES
from tests.support.raw_http import Wire, chunked
from tests.support.running import Answer, Running

SIGNERS = "/api/v1/signers"
RELAYERS = "/api/v1/relayers"
NOTIFICATION = "/api/v1/notifications/plain"
RPC = "/api/v1/relayers/r00/rpc"
BODIES = [("POST", SIGNERS), ("PATCH", NOTIFICATION), ("POST", RPC)]
LISTS = [SIGNERS, RELAYERS]

every_body = pytest.mark.parametrize(("method", "path"), BODIES, ids=["create", "update", "rpc"])
every_list = pytest.mark.parametrize("path", LISTS)

GOOD: dict[str, dict[str, Any]] = {
    SIGNERS: shapes.request("plain"),
    NOTIFICATION: {"url": "https://example.com/"},
    RPC: {"jsonrpc": "2.0", "id": 1, "method": "none", "params": {}},
}
MIB = 1_048_576


class Onlooker:
    """Sees everything the interface shows, over a connection of its own that it keeps."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._wire = Wire(running)
        self.before = self.state()

    def state(self) -> list[Any]:
        try:
            return self._look()
        except OSError:  # the service let the idle connection go
            self._wire = Wire(self._running)
            return self._look()

    def _look(self) -> list[Any]:
        """Both lists, and both notifications as a change of nothing answers them."""
        wire = self._wire
        for path in LISTS:
            wire.send(wire.head("GET", f"{path}?per_page=1000"))
        for name in ("pager", "plain"):
            head = ("Content-Type: application/json", "Content-Length: 2")
            wire.send(wire.head("PATCH", f"/api/v1/notifications/{name}", *head) + b"{}")
        return [(answer.status, answer.json) for answer in wire.answers(4)]


@pytest.fixture(scope="module", params=ENGINES)
def contract(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, put: Callable[[Path, str], Path]
) -> Iterator[Running]:
    """A service for this module alone: no request here may change anything in it."""
    with served(put(tmp_path_factory.mktemp("untouched") / "home", request.param)) as running:
        yield running


@pytest.fixture(scope="module")
def onlooker(contract: Running) -> Onlooker:
    return Onlooker(contract)


@pytest.fixture(autouse=True)
def nothing_changes(onlooker: Onlooker) -> Iterator[None]:
    yield
    assert onlooker.state() == onlooker.before


def refused(answer: Answer, status: int = 400) -> None:
    assert (answer.status, answer.json) == (status, shapes.BAD_REQUEST)
    assert 0 < len(answer.headers["relaydeck-reason"]) <= 200
    assert answer.headers["relaydeck-reason"].isascii()


NO_JSON = {
    "empty": b"",
    "blank": b" ",
    "a word": b"hello",
    "cut short": b'{"type":',
    "two values": b"{}{}",
    "something after it": b"{}x",
    "single quotes": b"{'a':1}",
    "a comma too many": b'{"a":1,}',
    "a comment": b"{}//",
    "NaN": b'{"type":NaN}',
    "Infinity": b'{"jsonrpc":"2.0","method":"m","params":{},"id":Infinity}',
    "a leading zero": b'{"jsonrpc":"2.0","method":"m","params":{},"id":01}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "a NUL": b"\x00",
    "invalid UTF-8": b'{"type":"\xff","config":{}}',
    "invalid UTF-8 in a name": b'{"\xff":1}',
    "overlong UTF-8": b'{"type":"\xc0\xaf","config":{}}',
    "a surrogate in UTF-8": b'{"type":"\xed\xa0\x80","config":{}}',
    "a raw control character": b'{"type":"\x01","config":{}}',
    "nesting of arrays": b"[" * 100_000 + b"]" * 100_000,
    "nesting of objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "nesting without an end": b"[" * 100_000,
    "form fields": b"type=plain&config=x",
    "XML": b"<signer/>",
}
NO_OBJECT = [b"[]", b"null", b"true", b"1", b'"text"', b"9" * 5000, b"[{}]", b"-" + b"9" * 5000, b"1e999999"]


@every_body
@pytest.mark.parametrize("body", list(NO_JSON.values()), ids=list(NO_JSON))
def test_a_body_that_is_no_json(contract: Running, method: str, path: str, body: bytes) -> None:
    refused(contract.ask(method, path, body))


@every_body
@pytest.mark.parametrize("body", NO_OBJECT, ids=lambda body: body[:9].decode())
def test_a_body_that_is_no_object(contract: Running, method: str, path: str, body: bytes) -> None:
    refused(contract.ask(method, path, body))


# sentence: 2.2-unknown-fields
@every_body
def test_an_unknown_field(contract: Running, method: str, path: str) -> None:
    refused(contract.ask(method, path, GOOD[path] | {"more": 1}))


@every_body
@pytest.mark.parametrize(
    "name", ["", "é", "Type", "URL", "METHOD", "💥", "a\u0000b", "x" * 5000], ids=lambda n: ascii(n)[:9]
)
def test_an_unknown_field_of_any_name(contract: Running, method: str, path: str, name: str) -> None:
    refused(contract.ask(method, path, GOOD[path] | {name: 1}))


@every_body
def test_an_unknown_field_that_holds_deep_nesting(contract: Running, method: str, path: str) -> None:
    good = json.dumps(GOOD[path])[:-1].encode()
    refused(contract.ask(method, path, good + b',"more":' + b"[" * 100_000 + b"]" * 100_000 + b"}"))


# sentence: 2.2-unknown-fields
@pytest.mark.parametrize("kind", shapes.TYPES)
def test_an_unknown_field_in_a_config(contract: Running, kind: str) -> None:
    refused(contract.ask("POST", SIGNERS, {"type": kind, "config": shapes.CONFIGS[kind] | {"more": "x"}}))


@pytest.mark.parametrize("kind", shapes.TYPES)
@pytest.mark.parametrize("config", [None, 1, "x", [], True, [{}]], ids=str)
def test_a_config_that_is_no_object(contract: Running, kind: str, config: Any) -> None:
    refused(contract.ask("POST", SIGNERS, {"type": kind, "config": config}))


@pytest.mark.parametrize(
    "kind", [None, 1, "", [], {}, True, "Plain", "local", "plain ", "PLAIN", "plain\u0000"], ids=ascii
)
def test_a_signer_type_that_is_none(contract: Running, kind: Any) -> None:
    refused(contract.ask("POST", SIGNERS, {"type": kind, "config": {"key": "k"}}))


IDENTIFIERS: list[Any] = [
    None,
    1,
    True,
    [],
    {},
    "",
    ".",
    "..",
    "x" * 256,
    "é" * 256,
    "a\u0000",
    "\n",
    "a\tb",
    "\u007f",
    "\u0085",
    "\u009f",
]


# sentence: 2.2-identifiers
@pytest.mark.parametrize("given", IDENTIFIERS, ids=lambda value: ascii(value)[:9])
def test_a_signer_id_that_is_none(contract: Running, given: Any) -> None:
    refused(contract.ask("POST", SIGNERS, shapes.request("plain", id=given)))


ENCODED = {
    "256 characters": "x" * 256,
    "256 characters that take two bytes": "%C3%A9" * 256,
    "a NUL": "a%00",
    "a line feed": "%0A",
    "a tab": "a%09b",
    "delete": "%7F",
    "a C1 control": "%C2%85",
    "a dot": "%2E",
    "two dots": "%2E%2E",
    "a half-encoded dot segment": ".%2e",
    "invalid UTF-8": "%FF",
    "overlong UTF-8": "%C0%AF",
    "a surrogate": "%ED%A0%80",
}


@pytest.mark.parametrize("encoded", list(ENCODED.values()), ids=list(ENCODED))
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("PATCH", "/api/v1/notifications/{}", {}), ("POST", "/api/v1/relayers/{}/rpc", GOOD[RPC])],
    ids=["update", "rpc"],
)
def test_an_identifier_in_a_path_that_is_none(
    contract: Running, method: str, path: str, body: Any, encoded: str
) -> None:
    refused(contract.ask(method, path.format(encoded), body))


@pytest.mark.parametrize("identifier", [".", ".."])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("PATCH", "/api/v1/notifications/{}", {}), ("POST", "/api/v1/relayers/{}/rpc", GOOD[RPC])],
    ids=["update", "rpc"],
)
def test_a_dot_segment_in_a_path_is_no_way_elsewhere(
    contract: Running, method: str, path: str, body: Any, identifier: str
) -> None:
    refused(contract.ask(method, path.format(identifier), body))


@pytest.mark.parametrize("name", ["type", "url"])
@pytest.mark.parametrize("value", [None, 1, True, [], {}], ids=str)
def test_a_notification_field_of_another_type(contract: Running, name: str, value: Any) -> None:
    refused(contract.ask("PATCH", NOTIFICATION, {name: value}))


@pytest.mark.parametrize("value", [1, True, [], {}, 0.5], ids=str)
def test_a_signing_key_of_another_type(contract: Running, value: Any) -> None:
    refused(contract.ask("PATCH", NOTIFICATION, {"signing_key": value}))


LONE_SURROGATES = {
    "a signer id": (SIGNERS, b'{"type":"plain","config":{"key":"k"},"id":"\\ud800"}'),
    "a key": (SIGNERS, b'{"type":"plain","config":{"key":"\\udfff"}}'),
    "a nested object": (
        SIGNERS,
        b'{"type":"provider_b_kms","config":{"key":{"a":"\\ud800"},"service_account":{}}}',
    ),
    "a field name": (SIGNERS, b'{"type":"plain","config":{"key":"k"},"\\ud800":1}'),
    "an rpc id": (RPC, b'{"jsonrpc":"2.0","method":"m","params":{},"id":"\\ud800"}'),
    "a method": (RPC, b'{"jsonrpc":"2.0","method":"\\ud800","params":{}}'),
    "params": (RPC, b'{"jsonrpc":"2.0","method":"feeEstimate","params":{"fee_token":"\\ud800"}}'),
    "pairs the wrong way round": (RPC, b'{"jsonrpc":"2.0","method":"\\udca5\\ud83d","params":{}}'),
}


@pytest.mark.parametrize(("path", "body"), list(LONE_SURROGATES.values()), ids=list(LONE_SURROGATES))
def test_a_lone_surrogate(contract: Running, path: str, body: bytes) -> None:
    refused(contract.ask("POST", path, body))


@pytest.mark.parametrize("body", [b'{"url":"http://a/\\ud800"}', b'{"signing_key":"\\ud800"}'], ids=ascii)
def test_a_lone_surrogate_in_a_notification(contract: Running, body: bytes) -> None:
    refused(contract.ask("PATCH", NOTIFICATION, body))


def deep(path: str) -> list[bytes]:
    nest = b"[" * 100_000 + b"]" * 100_000
    if path == SIGNERS:
        return [
            b'{"type":' + nest + b"}",
            b'{"type":"plain","config":' + nest + b"}",
            b'{"type":"plain","config":{"key":' + nest + b"}}",
            b'{"type":"provider_b_kms","config":{"key":{"a":' + nest + b'},"service_account":{}}}',
            b'{"id":' + nest + b"}",
        ]
    if path == NOTIFICATION:
        return [b'{"%b":%b}' % (name, nest) for name in (b"type", b"url", b"signing_key")]
    return [
        b'{"jsonrpc":"2.0","method":"m","params":{"a":%b}}' % nest,
        b'{"jsonrpc":"2.0","method":"m","params":{},"id":%b}' % nest,
        b'{"jsonrpc":%b}' % nest,
    ]


@pytest.mark.parametrize(
    ("method", "path", "body"), [(method, path, body) for method, path in BODIES for body in deep(path)],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_nesting_100_000_deep_inside_a_field(contract: Running, method: str, path: str, body: bytes) -> None:
    refused(contract.ask(method, path, body))


@pytest.mark.parametrize(
    "number", ["9" * 5000, "-" + "9" * 5000, "0." + "9" * 5000, "1e" + "9" * 5000], ids=lambda n: n[:4]
)
@pytest.mark.parametrize(
    ("method", "path", "form"),
    [
        ("POST", SIGNERS, '{"type":%s,"config":{"key":"k"}}'),
        ("POST", SIGNERS, '{"type":"plain","config":%s}'),
        ("POST", SIGNERS, '{"type":"plain","config":{"key":%s}}'),
        ("POST", SIGNERS, '{"type":"plain","config":{"key":"k"},"id":%s}'),
        ("PATCH", NOTIFICATION, '{"url":%s}'),
        ("PATCH", NOTIFICATION, '{"signing_key":%s}'),
        ("POST", RPC, '{"jsonrpc":%s,"method":"m","params":{}}'),
        ("POST", RPC, '{"jsonrpc":"2.0","method":%s,"params":{}}'),
        ("POST", RPC, '{"jsonrpc":"2.0","method":"m","params":%s}'),
    ],
    ids=lambda value: str(value)[-36:],
)
def test_a_number_of_5000_digits(contract: Running, method: str, path: str, form: str, number: str) -> None:
    refused(contract.ask(method, path, (form % number).encode()))


@pytest.mark.parametrize("number", ["9" * 5000, "1e" + "9" * 5000], ids=lambda n: n[:4])
def test_a_number_of_5000_digits_in_params(contract: Running, number: str) -> None:
    body = b'{"jsonrpc":"2.0","method":"feeEstimate","params":{"fee_token":%b}}' % number.encode()
    answer = contract.ask("POST", RPC, body)
    assert (answer.status, answer.json["error"]["code"]) == (200, -32602)


@every_list
@pytest.mark.parametrize(
    "query",
    [
        "page=1&page=2",
        "page=1&page=1",
        "per_page=1&per_page=1",
        "page=1&p%61ge=2",
        "page&page=1",
        "page=-" + "9" * 5000,
        "page=" + "9" * 4999 + "x",
        "page=%00",
        "page=%FF",
        "page=1%0A",
        "page=1;per_page=2",
        "per_page=%F0%9F%92%A5",
        "page=null",
        "page[]=1&page=x",
    ],
    ids=lambda query: query[:24],
)
def test_a_query_that_is_none(contract: Running, path: str, query: str) -> None:
    refused(contract.ask("GET", f"{path}?{query}"))


@every_body
@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/xml", "multipart/form-data", "application", "*/*", "application/json+x", "é"],
    ids=ascii,
)
def test_a_wrong_or_missing_content_type(contract: Running, method: str, path: str, kind: str) -> None:
    body = json.dumps(GOOD[path]).encode()
    lines = [f"Content-Type: {kind}"] if kind else []
    with Wire(contract) as wire:
        wire.send(wire.head(method, path, *lines, f"Content-Length: {len(body)}") + body)
        refused(wire.answer())


@every_body
def test_no_body_at_all(contract: Running, method: str, path: str) -> None:
    with Wire(contract) as wire:
        wire.send(wire.head(method, path, "Content-Type: application/json"))
        refused(wire.answer())


def large(path: str, size: int) -> bytes:
    """A body that would be accepted but for its size."""
    text = json.dumps(GOOD[path]).encode()
    return text + b" " * (size - len(text))


@every_body
def test_a_body_of_3_mib(contract: Running, method: str, path: str) -> None:
    refused(contract.ask(method, path, large(path, 3 * MIB)), 413)


@every_body
def test_a_chunked_body_of_3_mib(contract: Running, method: str, path: str) -> None:
    with Wire(contract) as wire:
        head = wire.head(method, path, "Content-Type: application/json", "Transfer-Encoding: chunked")
        wire.send(head + chunked(large(path, 3 * MIB)))
        refused(wire.answer(), 413)


@every_body
def test_a_body_of_one_byte_too_many(contract: Running, method: str, path: str) -> None:
    refused(contract.ask(method, path, large(path, MIB + 1)), 413)


@every_body
def test_a_body_that_announces_more_than_it_may_and_waits(contract: Running, method: str, path: str) -> None:
    with Wire(contract) as wire:
        wire.send(
            wire.head(
                method,
                path,
                "Content-Type: application/json",
                f"Content-Length: {3 * MIB}",
                "Expect: 100-continue",
            )
        )
        refused(wire.answer(), 413)


def test_a_list_with_a_body_of_3_mib_is_a_list(contract: Running) -> None:
    assert contract.ask("GET", SIGNERS, b" " * (3 * MIB)).status == 200


@pytest.mark.parametrize(
    "body",
    [
        [],
        [{"jsonrpc": "2.0", "id": 1, "method": "none", "params": {}}],
        [{"jsonrpc": "2.0", "id": 1, "method": "none", "params": {}}] * 2,
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
        {"id": 1, "method": "none", "params": {}},
        {"jsonrpc": "2.0", "id": 1, "method": "none"},
        {"jsonrpc": "2.0", "id": 1, "method": "none", "params": ["ETH"]},
        {"jsonrpc": "2.0", "id": 1, "method": "none", "params": {}, "extra": 1},
    ],
    ids=lambda body: str(body)[:50],
)
def test_a_json_rpc_shape_that_is_not_one_call(contract: Running, body: Any) -> None:
    refused(contract.ask("POST", RPC, body))


@pytest.mark.parametrize("repeated", [b'"type":"provider_e"', b'"config":{}', b'"config":{"key":1}'], ids=ascii)
def test_a_field_given_twice_is_checked_each_time(contract: Running, repeated: bytes) -> None:
    refused(contract.ask("POST", SIGNERS, b'{"type":"plain","config":{"key":"k"},%b}' % repeated))


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
@pytest.mark.parametrize("path", ["/api/v1/signers/%00", "/api/v1/%2e%2e/signers", "/%F0%9F%92%A5", "//api/v1/signers"])
def test_a_path_that_nothing_answers(contract: Running, method: str, path: str) -> None:
    answer = contract.ask(method, path)
    assert (answer.status, answer.json) == (404, shapes.failure("Not Found"))
