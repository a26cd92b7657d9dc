"""Questions to a node, and the readers of its answers.

A reader raises `UrlFailed` for an answer of the wrong type: a node that answers `true` instead of a number is not
trusted with the next question.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import structs

from relaydeck.networks.evm.errors import UrlFailed

T = TypeVar("T")
QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}\Z")
_BYTES = re.compile(r"0x(?:[0-9a-fA-F]{2})*\Z")


class Question(msgspec.Struct, Generic[T], frozen=True):
    """A method with its params, and the reader of its result, which raises `UrlFailed` for a wrong type."""

    method: str
    params: Sequence[Any]
    read: Callable[[Any], T]
    exact: bool = True  # whether nodes of one chain answer the same about one block
    about: str = ""  # in messages; empty: its method

    def body(self, number: int) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": number, "method": self.method, "params": self.params}


def contract_call(to: str, data: str, read: Callable[[Any], T], block: str = "latest") -> Question[T]:
    """A call of a contract's view function."""
    return Question("eth_call", ({"to": to, "data": data}, block), read)


def at_block(question: Question[T], block: str) -> Question[T]:
    """The same question about the state after a block, if it is about a state."""
    if question.method != "eth_call":
        return question
    return structs.replace(question, params=(question.params[0], block))


def read_quantity(answer: Any) -> int:
    """A hex integer of at most 256 bits. Leading zeros are tolerated: some nodes send them."""
    if not isinstance(answer, str) or not QUANTITY.match(answer):
        raise UrlFailed("answered something other than a number")
    return int(answer, 16)


def read_gas(answer: Any) -> int:
    """An amount of gas: positive, and within the 64 bits of a transaction's limit."""
    amount = read_quantity(answer)
    if not 0 < amount < 1 << 64:
        raise UrlFailed("answered an impossible amount of gas")
    return amount


def read_bytes(answer: Any) -> bytes:
    if not isinstance(answer, str) or not _BYTES.match(answer):
        raise UrlFailed("answered something other than a byte string")
    return bytes.fromhex(answer[2:])


def read_quantities(answer: Any) -> list[int]:
    if not isinstance(answer, list):
        raise UrlFailed("answered something other than a list of numbers")
    return [read_quantity(item) for item in answer]


def words(returned: bytes, count: int) -> list[int] | None:
    """The first `count` 32-byte words of a call's return data, or None when there are fewer."""
    if len(returned) < 32 * count:
        return None
    return [int.from_bytes(returned[32 * i : 32 * i + 32], "big") for i in range(count)]


CHAIN_ID: Question[int] = Question("eth_chainId", (), read_quantity)
BLOCK_NUMBER: Question[int] = Question("eth_blockNumber", (), read_quantity)
