"""What an error object means: nodes agree on neither codes nor words, so both are read.

| meaning | what happens |
|---|---|
| REVERTED, REFUSED | the node's answer to the question: it goes to the caller |
| BUSY | the URL is over its limits: set aside like an HTTP 429 |
| PASSING | this node cannot answer this question now: the next one is asked, the URL stays in use |
"""

import re
from enum import Enum
from typing import Any

from relaydeck.networks.evm.errors import NodeError


class ErrorKind(Enum):
    REVERTED = "reverted"
    REFUSED = "refused"
    BUSY = "busy"
    PASSING = "passing"


_BUSY_CODES = frozenset({429, -32005, -32029, -32097})
_BUSY_WORDS = re.compile(r"rate.?limit|too many requests|limit exceeded|quota|capacity exceeded", re.IGNORECASE)
# -32601, -32004: unknown method; -32603: internal error; -32001, -32002: state not there (any more)
_PASSING_CODES = frozenset({-32700, -32601, -32603, -32004, -32002, -32001})
_PASSING_WORDS = re.compile(r"missing trie node|header not found|timed? ?out|not synced", re.IGNORECASE)
_FAILED_WORDS = re.compile(
    r"revert|vm exception|invalid opcode|invalid jump|bad jump|out of gas|stack (?:under|over)flow",
    re.IGNORECASE,
)


def error_kind(error: NodeError) -> ErrorKind:
    # Reverts first: one node reports them as -32603, others as 3, -32000 or -32015.
    if error.code == 3 or returned_data(error) is not None or _FAILED_WORDS.search(error.message):
        return ErrorKind.REVERTED
    if error.code in _BUSY_CODES or _BUSY_WORDS.search(error.message):
        return ErrorKind.BUSY
    if error.code in _PASSING_CODES or _PASSING_WORDS.search(error.message):
        return ErrorKind.PASSING
    return ErrorKind.REFUSED


def returned_data(error: NodeError) -> bytes | None:
    """What the reverted call returned, from the places nodes put it: data, data.data, data.result."""
    data: Any = error.data
    for _ in range(3):
        if isinstance(data, dict):
            data = data.get("data", data.get("result"))
    if not isinstance(data, str):
        return None
    if data.startswith("Reverted 0x"):  # one family of nodes
        data = data.removeprefix("Reverted ")
    if not re.match(r"0x(?:[0-9a-fA-F]{2})*\Z", data):
        return None
    return bytes.fromhex(data[2:])
