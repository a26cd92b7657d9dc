"""What can go wrong between us and an EVM network.

Exception
├── BadTransaction       the encoded transaction is not one, or not for this chain
├── UrlFailed            one URL failed: set aside, the call goes on to the next (never leaves the pool)
├── NodeError            a node answered the question with an error object
└── NodesUnreachable     no URL of the pool answered in time
"""

from typing import Any


class BadTransaction(Exception):
    """The message says what is wrong with it, in words that may be shown to the caller."""


class UrlFailed(Exception):
    """`reason` holds our own words only. `wait` is how long the node asked us to stay away, if it did."""

    def __init__(self, reason: str, *, busy: bool = False, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.busy = busy
        self.wait = wait


class NodeError(Exception):
    """An error object, as the node sent it: `message` and `data` are a stranger's words."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.data = data


class NodesUnreachable(Exception):
    """The message names hosts only, never the path, query or user part of a URL."""
