"""Failures of transactions and nodes.

Exception
├── BadTransaction       not a valid encoded transaction, or not for this chain
├── UrlFailed            one URL failed: it is set aside and the next one is asked (never leaves the pool)
│   └── AnswerTooLarge   its answer is longer than we read
├── NodeError            a node answered the question with an error object
├── NodesUnreachable     no URL of the pool answered in time
└── NodesDisagree        the nodes answer different fee data, and the network requires some of them to agree
"""

import re
from enum import Enum
from typing import Any

_LONGEST_READ = 4_000  # characters of a message that decide its kind: a contract may revert with any reason


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


class NodeError(Exception):
    """An error object as the node sent it: `message` and `data` are text from outside.

    `status` is the HTTP status of the response, and `wait` its Retry-After in seconds.
    """

    def __init__(
        self, code: int, message: str, data: Any = None, *, status: int = 200, wait: float | None = None
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data = data
        self.status = status
        self.wait = wait


class NodesUnreachable(Exception):
    """The message names hosts only, never the path, query or user part of a URL."""


class NodesDisagree(Exception):
    """The message names hosts and prices."""


class ErrorKind(Enum):
    """What an error object means. Nodes agree on neither codes nor messages, so both are read.

    | kind | what follows |
    |---|---|
    | REVERTED, REFUSED | it is the node's answer to the question, and goes to the caller |
    | BUSY | the URL is over its limits: it is set aside, as for an HTTP 429 |
    | DENIED | the URL does not serve this client, for example because its key is wrong: it is set aside |
    | PASSING | this node cannot answer this question now: the next one is asked, the URL stays in use |
    """

    REVERTED = "reverted"
    REFUSED = "refused"
    BUSY = "busy"
    DENIED = "denied"
    PASSING = "passing"


def _words(*patterns: str) -> "re.Pattern[str]":
    return re.compile("|".join(patterns), re.IGNORECASE)


_FAILED_WORDS = _words(
    r"revert|vm exception|invalid opcode|invalid jump|bad jump|out of gas|stack (?:under|over)flow",
)
# Codes and messages that large providers send, each instead of an answer. 15: too many requests; -32007, -32090: the
# rate of the plan; -32029, -32097: the rate of a shared endpoint.
_BUSY_CODES = frozenset({15, 429, -32005, -32007, -32029, -32090, -32097})
_BUSY_WORDS = _words(
    r"rate.?limit|rate exceeded|request rate|rps limit|per.second|too many (?:requests?|concurrent|connections)",
    r"(?<!gas )limit (?:exceeded|reached|exhausted)|(?:requests?|usage|throughput|plan|monthly|daily) (?:count|limit)",
    r"quota|compute units?|capacity (?:limit )?exceeded|out of (?:credits|capacity)|throttl|slow down|overloaded",
    r"try again later|retry (?:in|after) \d|server (?:is )?busy|over capacity",
)
_DENIED_STATUSES = frozenset({401, 402, 403, 404, 405, 407, 451})
_DENIED_CODES = frozenset({-32051, -32052, -32701})  # -32701: only for users of a paid plan
_DENIED_WORDS = _words(
    r"unauthori[sz]ed|must be authenticated|forbidden|access denied|payment required",
    r"(?:invalid|missing|unknown|disabled|expired) (?:api|access|project|app)|api.?key|project id",
)
# -32601, -32004: unknown method; -32603: internal error; -32001, -32002: state not available (any more); 12, 19, 30:
# no upstream node, a temporary error, a timeout of a plan without charge; -32046: a gateway without an answer
_PASSING_CODES = frozenset({12, 19, 30, -32700, -32601, -32603, -32004, -32002, -32001, -32046})
_PASSING_STATUSES = frozenset({408, 413, 502, 503, 504})
_PASSING_WORDS = _words(
    r"missing trie node|(?:header|block) not found|unknown block|timed? ?out|deadline exceeded",
    r"backend (?:is )?offline|not healthy|backend returned|(?:block|request) is out of range",
    r"not synced|syncing|not (?:yet )?ready|not initiali[sz]ed|is behind|not available|unavailable",
    r"state .{0,100}(?:pruned|discarded)|no (?:healthy |suitable )?(?:backends?|upstreams?|nodes?|providers?)",
    r"can'?t route|bad gateway|temporary|internal (?:server )?error|method .{0,100}not (?:found|supported|exist)",
)


def error_kind(error: NodeError) -> ErrorKind:
    message = error.message[:_LONGEST_READ]
    # Reverts first: one node reports them as -32603, others as 3, -32000 or -32015, and at any HTTP status.
    if error.code == 3 or returned_data(error) is not None or _FAILED_WORDS.search(message):
        return ErrorKind.REVERTED
    asks_to_wait = error.status == 429 or (error.status == 503 and error.wait is not None)
    if asks_to_wait or error.code in _BUSY_CODES or _BUSY_WORDS.search(message):
        return ErrorKind.BUSY
    if error.status in _DENIED_STATUSES or error.code in _DENIED_CODES or _DENIED_WORDS.search(message):
        return ErrorKind.DENIED
    if error.status in _PASSING_STATUSES or error.code in _PASSING_CODES or _PASSING_WORDS.search(message):
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
