"""HTTP to key systems: TLS verified, guarded, bounded in size. The deadline is the caller's."""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from relaydeck.address_guard import ANYWHERE, AddressGuard, AddressRefused
from relaydeck.connection_failure import ConnectionFailure, classify
from relaydeck.outgoing_connections import NameResolver, guarded_connector
from relaydeck.signers.drivers.authorities import trusted_authorities
from relaydeck.signers.drivers.driver_errors import AnswerRejected, ConfigUnusable, KeySystemUnreachable, Throttled
from relaydeck.signers.drivers.interface import DriverOptions, HttpAnswer

_MOST_BYTES = 256 * 1024
_KEEP_ALIVE_SECONDS = 15
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "Relaydeck"}

_PROBLEMS = {
    ConnectionFailure.ADDRESS_REFUSED: (
        "the key system's address is not public, and neither RELAYDECK_DRIVER_ALLOW nor an endpoint in the settings"
        " allows it: no connection was made"
    ),
    ConnectionFailure.BAD_URL: "the key system's address is not a usable URL",
    ConnectionFailure.NAME_NOT_RESOLVED: "the key system's host name does not resolve",
    ConnectionFailure.CONNECTION_REFUSED: "the key system refused the connection",
    ConnectionFailure.NOT_CONNECTED: "the key system cannot be reached",
    ConnectionFailure.TLS_FAILED: "the key system failed the TLS handshake",
    ConnectionFailure.TIMED_OUT: "the connection to the key system timed out",
    ConnectionFailure.CONNECTION_LOST: "the key system closed the connection early",
    ConnectionFailure.BAD_ANSWER: "the key system did not answer in HTTP",
}


class KeySystemClient:
    """Nothing of the environment (proxies, .netrc) is used."""

    def __init__(self, options: DriverOptions, *, private: bool = False) -> None:
        """`private`: for a system that the operator chose, which may be in a private network."""
        self._session = aiohttp.ClientSession(
            connector=_connector(options, ANYWHERE if private else AddressGuard(options.allow)),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )

    @staticmethod
    def prepare(options: DriverOptions) -> None:
        """In a thread, before the first client: reads the certificates that it trusts. Raises OperatorError."""
        trusted_authorities(options.ca_file)

    async def close(self) -> None:
        await self._session.close()

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> HttpAnswer:
        """`url` is sent as it is spelt. Raises KeySystemUnreachable and Throttled."""
        require_confidential(url)
        try:
            answer = await self._send(method, url, headers, body)
        except (AddressRefused, aiohttp.ClientError, OSError, ValueError) as error:
            raise KeySystemUnreachable(_explanation(error)) from None
        if answer.status == 429:
            raise Throttled("the key system refuses more requests for now (HTTP 429)")
        if answer.status >= 500:
            raise KeySystemUnreachable(f"the key system answered HTTP {answer.status}")
        return answer

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> HttpAnswer:
        try:
            return await self._once(method, url, headers, body)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            # The server may have closed a kept connection as we wrote. No request here changes anything: send it again.
            return await self._once(method, url, headers, body)

    async def _once(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> HttpAnswer:
        # Redirects are not followed: a credential must not reach a host that the operator did not name.
        options: dict[str, Any] = {"headers": dict(headers), "data": body, "allow_redirects": False}
        async with self._session.request(method, URL(url, encoded=True), **options) as response:
            return HttpAnswer(response.status, await _read(response))


async def _read(response: aiohttp.ClientResponse) -> bytes:
    chunks, size = [], 0
    while chunk := await response.content.readany():
        size += len(chunk)
        if size > _MOST_BYTES:
            raise AnswerRejected(f"the key system's answer is longer than {_MOST_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _connector(options: DriverOptions, guard: AddressGuard) -> aiohttp.TCPConnector:
    tls, resolve = trusted_authorities(options.ca_file), options.resolve or NameResolver()
    return guarded_connector(guard, resolve, tls=tls, keep_alive_seconds=_KEEP_ALIVE_SECONDS)


def require_confidential(url: str) -> None:
    """Credentials and keys travel over TLS, or stay on this machine. Raises ConfigUnusable."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigUnusable("the key system's address is not an http(s) URL")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ConfigUnusable("the key system's address must start with https:// (http:// is for loopback only)")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _explanation(error: Exception) -> str:
    """In our own words: the text of an exception may hold the URL."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "the key system's TLS certificate does not verify"  # RELAYDECK_DRIVER_CA_FILE may be missing
    return _PROBLEMS[classify(error)]
