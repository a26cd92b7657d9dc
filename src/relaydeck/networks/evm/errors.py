"""Failures of transactions and nodes.

Exception
├── BadTransaction       not a valid encoded transaction, or not for this chain
├── UrlFailed            one URL failed: it is set aside and the next one is asked (never leaves the pool)
├── NodeError            a node answered the question with an error object
└── NodesUnreachable     no URL of the pool answered in time
"""

import re
from enum import Enum
from typing import Any


class BadTransaction(Exception):
    """The message may be shown to the caller."""


class UrlFailed(Exception):
    """`reason` contains our own words only. `wait` is the pause that the node requested, if any."""

    def __init__(self, reason: str, *, busy: bool = False, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.busy = busy
        self.wait = wait


class NodeError(Exception):
    """An error object as the node sent it: `message` and `data` are text from outside."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data = data


class NodesUnreachable(Exception):
    """The message names hosts only, never the path, query or user part of a URL."""


class ErrorKind(Enum):
    """What an error object means. Nodes agree on neither codes nor messages, so both are read.

    | kind | what follows |
    |---|---|
    | REVERTED, REFUSED | it is the node's answer to the question, and goes to the caller |
    | BUSY | the URL is over its limits: it is set aside, as for an HTTP 429 |
    | PASSING | this node cannot answer this question now: the next one is asked, the URL stays in use |
    """

    REVERTED = "reverted"
    REFUSED = "refused"
    BUSY = "busy"
    PASSING = "passing"


_BUSY_CODES = frozenset({429, -32005, -32029, -32097})
_BUSY_WORDS = re.compile(r"rate.?limit|too many requests|limit exceeded|quota|capacity exceeded", re.IGNORECASE)
# -32601, -32004: unknown method; -32603: internal error; -32001, -32002: state not available (any more)
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
    """The return data of a reverted call. Nodes put it in data, data.data or data.result."""
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
