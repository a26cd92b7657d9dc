"""What the two kinds of connection to a node share: what they return, and the words for what can go wrong."""

import errno
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple, Protocol

import aiohttp

from relaydeck.address_guard import AddressRefused
from relaydeck.connection_failure import ConnectionFailure, classify
from relaydeck.networks.evm.errors import UrlFailed

Headers = Sequence[tuple[str, str]]
# What opening or using a connection raises.
CONNECTION_ERRORS = (AddressRefused, aiohttp.ClientError, OSError, ValueError)
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PROBLEMS = {
    ConnectionFailure.ADDRESS_REFUSED: "leads to an address that RELAYDECK_RPC_GUARD refuses",
    ConnectionFailure.BAD_URL: "is not a usable URL",
    ConnectionFailure.NAME_NOT_RESOLVED: "has a host name that does not resolve",
    ConnectionFailure.CONNECTION_REFUSED: "refused the connection",
    ConnectionFailure.NOT_CONNECTED: "cannot be reached",
    ConnectionFailure.TLS_FAILED: "failed the TLS handshake",
    ConnectionFailure.TIMED_OUT: "timed out",
    ConnectionFailure.CONNECTION_LOST: "closed the connection early",
    ConnectionFailure.BAD_ANSWER: "did not answer in HTTP",
}


class Response(NamedTuple):
    status: int
    body: bytes
    wait: float | None = None  # seconds, from Retry-After


class Endpoint(Protocol):
    async def send(self, body: bytes, numbers: Sequence[int]) -> Response:
        """Send a request with these JSON-RPC ids. Raises `UrlFailed` and nothing else."""

    async def close(self) -> None: ...


def failure_of(error: Exception) -> UrlFailed:
    if isinstance(error, OSError) and error.errno in _OUT_OF_RESOURCES:
        # This says nothing about the node: it is set aside for a moment as busy, not as failed.
        return UrlFailed("was not asked: this machine has no socket or lookup of names left for it", busy=True)
    return UrlFailed(_PROBLEMS[classify(error)], silent=True)  # not the exception's text, which may contain the URL


def refused(status: int, wait: float | None) -> UrlFailed:
    """What an HTTP status means that comes without a JSON-RPC response."""
    busy = status == 429 or (status == 503 and wait is not None)
    return UrlFailed(f"answered HTTP {status}", busy=busy, wait=wait if busy else None)


def seconds_of(retry_after: str) -> float | None:
    """Of the header's two forms, seconds and a date. None when it is neither."""
    if not retry_after:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        moment = parsedate_to_datetime(retry_after)
        return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None
