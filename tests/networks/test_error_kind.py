"""What error objects mean, in the shapes different nodes send."""

from typing import Any

import pytest
from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError
from hypothesis import given
from hypothesis import strategies as st

from relaydeck.networks.evm.errors import CODES, ErrorKind, NodeError, error_kind, printable, reason, refusal

NOPE = "0x08c379a0" + "20".zfill(64) + "04".zfill(64) + b"nope".hex().ljust(64, "0")

REVERTED = [
    (3, "execution reverted: nope", NOPE, "nope"),
    (-32603, "Error: VM Exception while processing transaction", {"message": "…", "data": NOPE}, "nope"),
    (-32000, "VM Exception while processing transaction: revert nope", {"result": NOPE}, "nope"),
    (-32015, "VM execution error.", "Reverted " + NOPE, "nope"),
    (-32000, "execution reverted", None, "no reason given"),
    (-32000, "execution reverted", "0x", "no reason given"),
    (-32000, "out of gas", None, "out of gas"),
    (-32000, "invalid opcode: INVALID", None, "an invalid instruction"),
    (3, "", {"data": {"data": {"data": {}}}}, "no reason given"),
    (3, "x", "0x08c379a0ffff", "return data that cannot be decoded, selector 0x08c379a0"),
    (3, "x", "0x08c379a0" + "ff" * 64, "return data that cannot be decoded, selector 0x08c379a0"),
    (3, "x", "0x08c379a0" + "00" * 32, "return data that cannot be decoded, selector 0x08c379a0"),
    (3, "x", "0x12", "return data 0x12"),
    (3, "x", "0x4e487b71" + "32".zfill(64), "panic 0x32: array index out of bounds"),
    (3, "line\nbreak\x07", 17, "no reason given"),
]


@pytest.mark.parametrize(("code", "message", "data", "words"), REVERTED)
def test_reverts(code: int, message: str, data: Any, words: str) -> None:
    error = NodeError(code, message, data)
    assert error_kind(error) is ErrorKind.REVERTED
    assert reason(error) == words


@given(st.text(max_size=100))
def test_a_reason_is_the_text_that_a_contract_encodes(text: str) -> None:
    encoded = "0x08c379a0" + encode(["string"], [text]).hex()
    assert reason(NodeError(3, "x", encoded)) == (printable(text) or "an empty reason")


@given(st.lists(st.integers(0, 130) | st.integers(1 << 62, (1 << 256) - 1), max_size=5), st.integers(0, 160))
def test_what_the_library_decodes_has_the_same_text(words: list[int], length: int) -> None:
    data = b"".join(word.to_bytes(32, "big") for word in words)[:length]
    try:
        (text,) = decode(["string"], data)
    except (DecodingError, UnicodeDecodeError, OverflowError):
        return
    assert reason(NodeError(3, "x", "0x08c379a0" + data.hex())) == (printable(text) or "an empty reason")


def test_a_long_reason_is_cut() -> None:
    text = reason(NodeError(3, "x", "0x08c379a0" + encode(["string"], ["x" * 5000]).hex()))
    assert (len(text), text[-1]) == (300, "…")


@pytest.mark.parametrize(
    ("code", "message", "meaning"),
    [
        (-32005, "limit exceeded", ErrorKind.BUSY),
        (429, "", ErrorKind.BUSY),
        (-32000, "Too Many Requests", ErrorKind.BUSY),
        (-32600, "daily quota reached", ErrorKind.BUSY),
        (-32601, "the method eth_x does not exist", ErrorKind.PASSING),
        (-32004, "Method eth_x is not supported", ErrorKind.PASSING),
        (-32603, "internal error", ErrorKind.PASSING),
        (-32000, "missing trie node", ErrorKind.PASSING),
        (-32000, "header not found", ErrorKind.PASSING),
        (-32000, "insufficient funds for gas * price + value", ErrorKind.REFUSED),
        (-32000, "gas required exceeds allowance (30000000)", ErrorKind.REFUSED),
        (-32602, "invalid argument", ErrorKind.PASSING),
        (-32000, "intrinsic gas too low: gas 0, minimum needed 21000", ErrorKind.REFUSED),
        (-32000, "exceeds block gas limit", ErrorKind.REFUSED),
        (-32000, "gas limit exceeded", ErrorKind.REFUSED),
    ],
)
def test_other_meanings(code: int, message: str, meaning: ErrorKind) -> None:
    assert error_kind(NodeError(code, message)) is meaning


# As the providers document or send them, with the HTTP status.
PROVIDERS = [
    (429, 429, "Your app has exceeded its compute units per second capacity.", ErrorKind.BUSY),
    (429, 429, "Your app has exceeded its throughput limit.", ErrorKind.BUSY),
    (429, -32005, "daily request count exceeded, request rate limited", ErrorKind.BUSY),
    (200, -32005, "project ID request rate exceeded", ErrorKind.BUSY),
    (200, -32007, "50/second request limit reached - reduce calls per second", ErrorKind.BUSY),
    (200, -32003, "daily request limit reached - upgrade your account", ErrorKind.BUSY),
    (200, -32029, "Too Many Requests", ErrorKind.BUSY),
    (200, -32090, "Too many requests, reason: call rate limit exhausted, retry in 10s", ErrorKind.BUSY),
    (200, -32097, "rate limit exceeded, retry in 10s", ErrorKind.BUSY),
    (200, -32005, "You've exceeded the RPS limit available on the current plan.", ErrorKind.BUSY),
    (500, 15, "Too many request, try again later", ErrorKind.BUSY),
    (200, -32001, "You've reached the usage limit for your current plan.", ErrorKind.BUSY),
    (200, -32016, "over rate limit", ErrorKind.BUSY),
    (200, -32000, "Monthly capacity limit exceeded. Visit the dashboard.", ErrorKind.BUSY),
    (200, -32000, "server is busy", ErrorKind.BUSY),
    (401, -32600, "Must be authenticated!", ErrorKind.DENIED),
    (401, -32002, "rejected due to project ID settings", ErrorKind.DENIED),
    (403, -32052, "API key is not allowed to access blockchain", ErrorKind.DENIED),
    (402, 0, "Payment Required", ErrorKind.DENIED),
    (200, -32000, "Unauthorized: invalid api key", ErrorKind.DENIED),
    (503, -32000, "node is not ready", ErrorKind.PASSING),
    (200, -32000, "still syncing", ErrorKind.PASSING),
    (200, -32000, "block not found", ErrorKind.PASSING),
    (200, -32603, "backend is unavailable", ErrorKind.PASSING),
    (500, 12, "Can't route your request to suitable provider", ErrorKind.PASSING),
    (500, 19, "Temporary internal error. Please retry", ErrorKind.PASSING),
    (500, 30, "Request timeout on the free tier", ErrorKind.PASSING),
    (200, -32046, "Cannot fulfill request", ErrorKind.PASSING),
    (502, -32000, "x", ErrorKind.PASSING),
    (413, -32600, "request entity too large", ErrorKind.PASSING),
    (200, -32011, "backend offline", ErrorKind.PASSING),
    (200, -32012, "backend is over capacity", ErrorKind.BUSY),
    (200, -32018, "backend is currently not healthy to serve traffic", ErrorKind.PASSING),
    (500, -32000, "backend returned an invalid response", ErrorKind.PASSING),
    (400, -32019, "block is out of range", ErrorKind.PASSING),
    (500, -32000, "execution reverted: too many requests", ErrorKind.REVERTED),
    (429, 3, "execution reverted: rate limit", ErrorKind.REVERTED),
    (404, 3, "execution reverted", ErrorKind.REVERTED),
    (500, -32000, "insufficient funds for gas * price + value", ErrorKind.REFUSED),
]


@pytest.mark.parametrize(("status", "code", "message", "meaning"), PROVIDERS)
def test_answers_of_providers(status: int, code: int, message: str, meaning: ErrorKind) -> None:
    assert error_kind(NodeError(code, message, status=status)) is meaning


@pytest.mark.parametrize(("wait", "meaning"), [(5.0, ErrorKind.BUSY), (None, ErrorKind.PASSING)])
def test_a_service_that_is_unavailable_may_ask_to_wait(wait: float | None, meaning: ErrorKind) -> None:
    assert error_kind(NodeError(-32000, "x", status=503, wait=wait)) is meaning


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NodeError(-32000, "insufficient funds: address 0xab have 1"), "the sender has not enough funds"),
        (NodeError(-32000, "nonce too low: next nonce 5"), "its nonce is already used"),
        (NodeError(35, "not for key planted-secret"), CODES[35][1]),
        (NodeError(-32000, "http://10.0.0.5/v2/planted-secret"), "error -32000"),
        (NodeError(10**300, "planted-secret"), "error 99999"),
        (NodeError(3, "execution reverted: planted-secret", "0x"), "execution reverts: no reason given"),
    ],
)  # fmt: skip
def test_a_refusal_is_told_in_our_words(error: NodeError, words: str) -> None:
    assert refusal(error) == words


def test_no_code_means_that_the_transaction_is_at_fault() -> None:
    assert {kind for kind, _ in CODES.values()} == {ErrorKind.BUSY, ErrorKind.DENIED, ErrorKind.PASSING}
    assert CODES[35][0] is ErrorKind.PASSING
