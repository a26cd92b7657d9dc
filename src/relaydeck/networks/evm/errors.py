"""Failures of transactions and nodes, in our own words: kinds of errors, and the reasons of reverts.

Exception
├── BadTransaction       not a valid encoded transaction, or not for this chain
├── UrlFailed            one URL failed: it is set aside and the next one is asked (never leaves the pool)
│   └── AnswerTooLarge   its answer is longer than we read
├── NodeError            a node answered the question with an error object
├── NodesUnreachable     no URL of the pool answered in time
│   └── NoCurrentBlock   those that answered have no current block
└── NodesDisagree        the nodes answer differently, or fewer answer than must agree

No text of a node leaves this module, except the reason of a revert that its contract encoded.
"""

import re
from collections.abc import Sequence
from enum import Enum
from typing import Any

from relaydeck.outgoing.connections import ConnectionFailed, ConnectionFailure

_LONGEST_READ = 4_000  # characters of a message that decide its kind: a contract may revert with any reason
_ERROR = bytes.fromhex("08c379a0")
_PANIC = bytes.fromhex("4e487b71")
_PANICS = {
    0x00: "generic panic",
    0x01: "assertion failed",
    0x11: "arithmetic overflow or underflow",
    0x12: "division or modulo by zero",
    0x21: "conversion to an enum value that does not exist",
    0x22: "access to an incorrectly encoded storage byte array",
    0x31: "pop from an empty array",
    0x32: "array index out of bounds",
    0x41: "too much memory allocated",
    0x51: "call of an uninitialized function pointer",
}
_WORD = 32  # bytes
_LONGEST = 300
_LARGEST_CODE = 99_999  # that is shown: JSON-RPC's own have five digits


class BadTransaction(Exception):
    """The message may be shown to the caller."""


class UrlFailed(Exception):
    """`reason` contains our own words only. `wait` is the pause that the node requested, if any.

    `silent`: no answer arrived, so nothing shows that a node is there. `busy`: a node is there and refuses for now.
    """

    def __init__(self, reason: str, *, silent: bool = False, busy: bool = False, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.silent = silent
        self.busy = busy
        self.wait = wait


class AnswerTooLarge(UrlFailed):
    """The answer is longer than we read; a question with a shorter answer may succeed on the same URL."""


def failure_of(error: ConnectionFailed) -> UrlFailed:
    if error.is_ours:  # it says nothing about the node: it is set aside for a moment as busy, not as failed
        return UrlFailed("was not asked: this machine has no socket or lookup of names left for it", busy=True)
    if error.cause is ConnectionFailure.ADDRESS_REFUSED:
        return UrlFailed("leads to an address that RELAYDECK_RPC_GUARD refuses", silent=True)
    return UrlFailed(error.cause.words, silent=True)


def refused(status: int, wait: float | None) -> UrlFailed:
    """What an HTTP status means that comes without a JSON-RPC response."""
    busy = status == 429 or (status == 503 and wait is not None)
    return UrlFailed(f"answered HTTP {status}", busy=busy, wait=wait if busy else None)


class NodeError(Exception):
    """An error object as the node sent it: `message` and `data` are text from outside.

    `status` is the HTTP status of the response, and `wait` its Retry-After in seconds.
    """

    def __init__(
        self, code: int, message: str, data: Any = None, *, status: int = 200, wait: float | None = None
    ) -> None:
        super().__init__(f"error {code}")  # without the text, which may end up in a log
        self.code = code
        self.message = message
        self.data = data
        self.status = status
        self.wait = wait


class NodesUnreachable(Exception):
    """The message names hosts only, never the path, query or user part of a URL."""


class NoCurrentBlock(NodesUnreachable):
    """The message names hosts, and the age of the block of each."""


class NodesDisagree(Exception):
    """The message names hosts and what each answered, in our words. `values`: the answers themselves, where known."""

    def __init__(self, message: str, values: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.values = values


class ErrorKind(Enum):
    """What an error object means. Nodes agree on neither codes nor messages, so both are read.

    | kind | what follows |
    |---|---|
    | REVERTED, REFUSED | it is the node's answer to the question, which a second node confirms |
    | BUSY | the URL is over its limits: it is set aside, as for an HTTP 429 |
    | DENIED | the URL does not serve this client, for example because its key is wrong: it is set aside |
    | PASSING | this node cannot answer this question now: the next one is asked, the URL stays in use |

    An error that nothing below knows is PASSING: it says nothing about the transaction.
    """

    REVERTED = "reverted"
    REFUSED = "refused"
    BUSY = "busy"
    DENIED = "denied"
    PASSING = "passing"


# The codes of providers and clients that mean: ask another node.
CODES: dict[int, tuple[ErrorKind, str]] = {
    15: (ErrorKind.BUSY, "too many requests"),
    429: (ErrorKind.BUSY, "too many requests"),
    -32005: (ErrorKind.BUSY, "limit exceeded"),
    -32007: (ErrorKind.BUSY, "the rate of the plan"),
    -32029: (ErrorKind.BUSY, "the rate of a shared endpoint"),
    -32090: (ErrorKind.BUSY, "the rate of the plan"),
    -32097: (ErrorKind.BUSY, "the rate of a shared endpoint"),
    -32051: (ErrorKind.DENIED, "the key is not valid"),
    -32052: (ErrorKind.DENIED, "the key is not valid"),
    -32701: (ErrorKind.DENIED, "only for users of a paid plan"),
    12: (ErrorKind.PASSING, "no upstream node"),
    19: (ErrorKind.PASSING, "a temporary error"),
    30: (ErrorKind.PASSING, "a timeout of a plan without charge"),
    35: (ErrorKind.PASSING, "a method that a plan without charge does not contain"),
    -32700: (ErrorKind.PASSING, "the request was not understood"),
    -32601: (ErrorKind.PASSING, "unknown method"),
    -32603: (ErrorKind.PASSING, "internal error"),
    -32004: (ErrorKind.PASSING, "unknown method"),
    -32002: (ErrorKind.PASSING, "state not available"),
    -32001: (ErrorKind.PASSING, "state not available"),
    -32046: (ErrorKind.PASSING, "a gateway without an answer"),
}
_DENIED_STATUSES = frozenset({401, 402, 403, 404, 405, 407, 451})


def _words(*patterns: str) -> "re.Pattern[str]":
    return re.compile("|".join(patterns), re.IGNORECASE)


_FAILED_WORDS = _words(
    r"revert|vm exception|invalid opcode|invalid jump|bad jump|out of gas|stack (?:under|over)flow",
)
_BUSY_WORDS = _words(
    r"rate.?limit|rate exceeded|request rate|rps limit|per.second|too many (?:requests?|concurrent|connections)",
    r"(?<!gas )limit (?:exceeded|reached|exhausted)|(?:requests?|usage|throughput|plan|monthly|daily) (?:count|limit)",
    r"quota|compute units?|capacity (?:limit )?exceeded|out of (?:credits|capacity)|throttl|slow down|overloaded",
    r"try again later|retry (?:in|after) \d|server (?:is )?busy|over capacity",
)
_DENIED_WORDS = _words(
    r"unauthori[sz]ed|must be authenticated|forbidden|access denied|payment required",
    r"(?:invalid|missing|unknown|disabled|expired) (?:api|access|project|app)|api.?key|project id",
)
_LACKS_BLOCK = _words(r"(?:header|block) not found|(?:unknown|missing|no such) (?:block|header)")
# What a node may refuse about a transaction, and how we say it.
_REFUSALS = (
    (_words(r"insufficient (?:funds|balance)|(?:sender )?doesn'?t have enough funds|gas \* price \+ value"),
     "the sender has not enough funds"),
    (_words(r"nonce too low|nonce .{0,40}already"), "its nonce is already used"),
    (_words(r"nonce too high"), "its nonce is too high"),
    (_words(r"intrinsic gas too low|base fee exceeds gas limit|floor data gas"),
     "its gas limit is below its intrinsic cost"),
    (_words(r"exceeds (?:the )?block gas limit|gas limit (?:is )?too high|exceeds? (?:the )?(?:gas )?(?:limit )?cap"),
     "its gas limit is above the node's limit"),
    (_words(r"gas required exceeds allowance|gas limit exceeded"), "it needs more gas than the node allows"),
    (_words(r"(?:max ?fee ?per ?gas|fee cap|gas price).{0,40}(?:less|lower|below|too low)|underpriced"),
     "its price is too low"),
    (_words(r"max initcode size|init code"), "its contract code is too large"),
)  # fmt: skip
# Failures of a call without return data, and how we say them.
_FAILURES = (
    (_words(r"out of gas"), "out of gas"),
    (_words(r"invalid opcode|opcode .{0,20}not defined"), "an invalid instruction"),
    (_words(r"invalid jump|bad jump"), "a jump to an invalid place"),
    (_words(r"stack (?:under|over)flow"), "a stack that is too small or too large"),
)


def error_kind(error: NodeError) -> ErrorKind:
    message = error.message[:_LONGEST_READ]
    # Reverts first: one node reports them as -32603, others as 3, -32000 or -32015, and at any HTTP status.
    if error.code == 3 or returned_data(error) is not None or _FAILED_WORDS.search(message):
        return ErrorKind.REVERTED
    asks_to_wait = error.status == 429 or (error.status == 503 and error.wait is not None)
    listed = CODES[error.code][0] if error.code in CODES else None
    if asks_to_wait or listed is ErrorKind.BUSY or _BUSY_WORDS.search(message):
        return ErrorKind.BUSY
    if error.status in _DENIED_STATUSES or listed is ErrorKind.DENIED or _DENIED_WORDS.search(message):
        return ErrorKind.DENIED
    return ErrorKind.PASSING if _known(_REFUSALS, message) is None else ErrorKind.REFUSED


def lacks_block(error: NodeError) -> bool:
    """Whether the node does not have the block that it was asked about: it may be behind."""
    return bool(_LACKS_BLOCK.search(error.message[:_LONGEST_READ]))


def _known(table: Sequence[tuple["re.Pattern[str]", str]], message: str) -> str | None:
    return next((words for pattern, words in table if pattern.search(message)), None)


def refusal(error: NodeError) -> str:
    """Why a node does not answer as wanted, in our words."""
    if error_kind(error) is ErrorKind.REVERTED:
        return f"execution reverts: {reason(error)}"
    known = _known(_REFUSALS, error.message[:_LONGEST_READ]) or CODES.get(error.code, (None, ""))[1]
    return known or f"error {max(-_LARGEST_CODE, min(error.code, _LARGEST_CODE))}"


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


def reason(error: NodeError) -> str:
    """The reason that the contract encoded, or in our words what stopped the call."""
    returned = returned_data(error)
    if returned is None:
        return _known(_FAILURES, error.message[:_LONGEST_READ]) or "no reason given"
    return _decoded(returned)


def _decoded(returned: bytes) -> str:
    if not returned:
        return "no reason given"
    try:
        if returned.startswith(_ERROR):
            return printable(_text(returned[4:])) or "an empty reason"
        if returned.startswith(_PANIC):
            code = _number(returned[4:], 0)
            return f"panic 0x{code:02x}: {_PANICS.get(code, 'unknown')}"
    except ValueError:
        return f"return data that cannot be decoded, selector 0x{returned[:4].hex()}"
    if len(returned) < 4:
        return f"return data 0x{returned.hex()}"
    return f"custom error 0x{returned[:4].hex()}"


def _text(encoded: bytes) -> str:
    """An ABI-encoded string: the position of its length, and at that position its length and its bytes."""
    position = _number(encoded, 0)
    start = position + _WORD
    end = start + _number(encoded, position)
    if position < _WORD or end > len(encoded):
        raise ValueError
    return encoded[start:end].decode()


def _number(encoded: bytes, position: int) -> int:
    word = encoded[position : position + _WORD]
    if len(word) < _WORD:
        raise ValueError
    return int.from_bytes(word, "big")


def printable(words: str) -> str:
    """Text from outside, fit for a log: one line of bounded length."""
    line = "".join(letter if letter.isprintable() else " " for letter in words[: 2 * _LONGEST]).strip()
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
