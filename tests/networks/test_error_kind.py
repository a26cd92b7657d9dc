"""What error objects mean, in the shapes different nodes send."""

from typing import Any

import pytest

from relaydeck.networks.evm.errors import ErrorKind, NodeError, error_kind
from relaydeck.networks.evm.revert import reason

NOPE = "0x08c379a0" + "20".zfill(64) + "04".zfill(64) + b"nope".hex().ljust(64, "0")

REVERTED = [
    (3, "execution reverted: nope", NOPE, "nope"),
    (-32603, "Error: VM Exception while processing transaction", {"message": "…", "data": NOPE}, "nope"),
    (-32000, "VM Exception while processing transaction: revert nope", {"result": NOPE}, "nope"),
    (-32015, "VM execution error.", "Reverted " + NOPE, "nope"),
    (-32000, "execution reverted", None, "execution reverted"),
    (-32000, "execution reverted", "0x", "no reason given"),
    (-32000, "out of gas", None, "out of gas"),
    (-32000, "invalid opcode: INVALID", None, "invalid opcode: INVALID"),
    (3, "", {"data": {"data": {"data": {}}}}, "no reason given"),
    (3, "x", "0x08c379a0ffff", "return data that cannot be decoded, selector 0x08c379a0"),
    (3, "x", "0x08c379a0" + "ff" * 64, "return data that cannot be decoded, selector 0x08c379a0"),
    (3, "x", "0x12", "return data 0x12"),
    (3, "x", "0x4e487b71" + "32".zfill(64), "panic 0x32: array index out of bounds"),
    (3, "line\nbreak\x07", 17, "line break"),
]


@pytest.mark.parametrize(("code", "message", "data", "words"), REVERTED)
def test_reverts(code: int, message: str, data: Any, words: str) -> None:
    error = NodeError(code, message, data)
    assert error_kind(error) is ErrorKind.REVERTED
    assert reason(error) == words


def test_a_long_reason_is_cut() -> None:
    text = reason(NodeError(3, "x" * 5000))
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
        (-32602, "invalid argument", ErrorKind.REFUSED),
    ],
)
def test_other_meanings(code: int, message: str, meaning: ErrorKind) -> None:
    assert error_kind(NodeError(code, message)) is meaning
