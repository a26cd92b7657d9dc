"""One try: a POST to a receiver, guarded, bounded in time and in what is read of the answer."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence

import aiohttp

from relaydeck.address_guard import AddressGuard, AddressRefused, Resolve, SystemResolver, guarded_connector
from relaydeck.notifications.retries import Answer
from relaydeck.settings import AddressRange
from relaydeck.web_addresses import web_address_problem

ANSWER_BYTES = 512
_ANSWER_SECONDS = 2.0  # the status decides; what follows it is a courtesy to the operator
_KEEP_ALIVE_SECONDS = 4.0  # less than what common servers keep: a try must not meet one that is just closing
_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "Relaydeck"}


class Sender:
    """One per event loop. Nothing of the environment (proxies, .netrc) is looked at."""

    def __init__(
        self,
        allow: Sequence[AddressRange],
        timeout_seconds: float,
        *,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | bool = True,
        most_at_once: int = 256,
    ) -> None:
        self._system = SystemResolver(most_at_once)
        self._timeout_seconds = timeout_seconds
        self._session = aiohttp.ClientSession(
            connector=guarded_connector(
                AddressGuard(allow), resolve or self._system, tls=tls, keep_alive_seconds=_KEEP_ALIVE_SECONDS
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def close(self) -> None:
        self._system.close()
        await self._session.close()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Never raises for what a receiver, a network or a name server does."""
        if web_address_problem(url):
            return Answer(problem="bad_url")
        try:
            async with asyncio.timeout(self._timeout_seconds):
                # A redirect is an answer like any other: the operator named this receiver and no other.
                response = await self._session.post(url, data=body, headers=headers, allow_redirects=False)
        except (AddressRefused, TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            return Answer(problem=_word(error))
        try:
            text = await _first_bytes(response)
        finally:
            response.release()
        return Answer(response.status, "", text, response.headers.get("Retry-After", "")[:64])


async def _first_bytes(response: aiohttp.ClientResponse) -> str:
    """What was read is kept when the rest does not come. A connection with more to say is not used again."""
    read = b""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            while len(read) < ANSWER_BYTES and (part := await response.content.read(ANSWER_BYTES - len(read))):
                read += part
    except (TimeoutError, aiohttp.ClientError, OSError):
        response.close()
    if not response.content.at_eof():
        response.close()
    return printable(read)


def printable(read: bytes) -> str:
    """A stranger's bytes as one line that is safe to show."""
    text = read.decode("utf-8", "replace")
    return "".join(character if character.isprintable() else " " for character in text).strip()


def _word(error: BaseException) -> str:
    """Ours, few, documented: the operator's first hint."""
    match error:
        case AddressRefused():
            return "address_refused"
        case TimeoutError():
            return "timed_out"
        case aiohttp.ClientConnectorDNSError():
            return "name_not_resolved"
        case aiohttp.ClientSSLError():
            return "tls_failed"
        case aiohttp.ClientConnectorError():
            return "not_connected"
        case aiohttp.InvalidURL() | ValueError():
            return "bad_url"
        case aiohttp.ClientResponseError():
            return "bad_answer"
        case _:
            return "connection_lost"
