"""Sends one POST to a receiver: guarded, with a timeout, and reading a bounded part of the response."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence

import aiohttp

from relaydeck.address_guard import AddressGuard, AddressRefused
from relaydeck.connection_failure import classify
from relaydeck.notifications.retries import ReceiverResponse
from relaydeck.outgoing_connections import NameResolver, Resolve, guarded_connector, traces
from relaydeck.setting_values import AddressRange
from relaydeck.web_addresses import web_address_problem

BODY_BYTES = 512
_BODY_SECONDS = 2.0  # the status decides; the body is only shown to the operator
_KEEP_ALIVE_SECONDS = 4.0  # less than common servers: an attempt must not use a connection that is about to close
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "Relaydeck"}


class Sender:
    """One per event loop. Ignores the environment (proxies, .netrc)."""

    def __init__(
        self,
        allow: Sequence[AddressRange],
        timeout_seconds: float,
        *,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | bool = True,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._session = aiohttp.ClientSession(
            connector=guarded_connector(
                AddressGuard(allow), resolve or NameResolver(), tls=tls, keep_alive_seconds=_KEEP_ALIVE_SECONDS
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=traces("event delivery"),
            headers=_HEADERS,
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def close(self) -> None:
        await self._session.close()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> ReceiverResponse:
        """Returns a response with a problem, and does not raise, when the receiver, network or name server fails."""
        if web_address_problem(url):
            return ReceiverResponse(problem="bad_url")
        try:
            async with asyncio.timeout(self._timeout_seconds):
                # A redirect is not followed: the operator configured this receiver and no other.
                response = await self._session.post(url, data=body, headers=headers, allow_redirects=False)
        except (AddressRefused, TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            return ReceiverResponse(problem=classify(error).value)
        try:
            text = await _first_bytes(response)
        finally:
            response.release()
        return ReceiverResponse(response.status, "", text, response.headers.get("Retry-After", "")[:64])


async def _first_bytes(response: aiohttp.ClientResponse) -> str:
    """Keeps what was read when the rest does not arrive. A connection with unread data is not used again."""
    read = b""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while len(read) < BODY_BYTES and (part := await response.content.read(BODY_BYTES - len(read))):
                read += part
    except (TimeoutError, aiohttp.ClientError, OSError):
        response.close()
    if not response.content.at_eof():
        response.close()
    return printable(read)


def printable(read: bytes) -> str:
    """Bytes from outside as one line that is safe to show."""
    text = read.decode("utf-8", "replace")
    return "".join(character if character.isprintable() else " " for character in text).strip()
