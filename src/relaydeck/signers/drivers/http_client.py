"""HTTP to key systems: TLS verified, guarded, bounded in size. The deadline is the caller's.

Also what drivers that use it share: where the system is, access tokens, and the errors for its refusals.
"""

import ssl
from base64 import b64decode
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from yarl import URL

from relaydeck.errors import OperatorError
from relaydeck.outgoing.address_guard import ANYWHERE, AddressGuard
from relaydeck.outgoing.connections import (
    ConnectionFailed,
    ConnectionFailure,
    Opener,
    Resolve,
    ResponseTooLarge,
)
from relaydeck.outgoing.http_client import HttpClient, Limits
from relaydeck.settings.model import Settings
from relaydeck.signers.drivers.access_tokens import AccessTokens
from relaydeck.signers.drivers.driver_errors import (
    AnswerRejected,
    ConfigUnusable,
    DriverError,
    KeySystemUnreachable,
    Throttled,
)
from relaydeck.signers.drivers.interface import DriverContext, HttpAnswer, failing_as
from relaydeck.web_addresses import is_loopback

_MOST_BYTES = 256 * 1024
_KEEP_ALIVE_SECONDS = 15
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "Relaydeck"}

_PROBLEMS = {
    ConnectionFailure.ADDRESS_REFUSED: (
        "the key system's address is not public, and neither RELAYDECK_DRIVER_ALLOW nor an endpoint in the settings"
        " allows it: no connection was made"
    ),
    ConnectionFailure.BAD_URL: "the key system's address is not a usable URL",
}


@cache
def trusted_authorities(ca_file: Path | None) -> ssl.SSLContext:
    """Made once for all drivers, in a thread: reading the certificates of the system takes a tenth of a second."""
    tls = ssl.create_default_context()
    if ca_file is not None:
        try:
            tls.load_verify_locations(ca_file)
        except OSError:  # a missing file, or one without a certificate
            problem = f"the certificates in {ca_file} cannot be read"
            raise OperatorError(problem, "RELAYDECK_DRIVER_CA_FILE must name a readable file in PEM form.") from None
    return tls


class KeySystemClient:
    """Nothing of the environment (proxies, .netrc) is used."""

    def __init__(self, settings: Settings, resolve: Resolve | None = None, *, private: bool = False) -> None:
        """`private`: for a system that the operator chose, which may be in a private network."""
        guard = ANYWHERE if private else AddressGuard(settings.driver_allow)
        opener = Opener(guard, resolve, trusted_authorities(settings.driver_ca_file))
        self._client = HttpClient(opener, Limits(_MOST_BYTES, _KEEP_ALIVE_SECONDS), _HEADERS)

    async def close(self) -> None:
        await self._client.close()

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> HttpAnswer:
        """`url` is sent as it is spelt, perhaps twice: no request changes anything.

        Raises KeySystemUnreachable and Throttled.
        """
        require_confidential(url)
        try:
            answer = await self._client.read(method, URL(url, encoded=True), headers, body)
        except ResponseTooLarge:
            raise AnswerRejected(f"the key system's answer is longer than {_MOST_BYTES} bytes") from None
        except ConnectionFailed as failure:
            raise KeySystemUnreachable(_explanation(failure)) from None
        except ValueError:
            raise KeySystemUnreachable(_PROBLEMS[ConnectionFailure.BAD_URL]) from None
        if answer.status == 429:
            raise Throttled("the key system refuses more requests for now (HTTP 429)")
        if answer.status >= 500:
            raise KeySystemUnreachable(f"the key system answered HTTP {answer.status}")
        return HttpAnswer(answer.status, answer.body)


def require_confidential(url: str) -> None:
    """Credentials and keys travel over TLS, or stay on this machine. Raises ConfigUnusable."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or parts.scheme not in ("http", "https"):
        raise ConfigUnusable("the key system's address is not an http(s) URL")
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigUnusable("the key system's address must start with https:// (http:// is for loopback only)")


def _explanation(failure: ConnectionFailed) -> str:
    if isinstance(failure.__cause__, ssl.SSLCertVerificationError):
        return "the key system's TLS certificate does not verify"  # RELAYDECK_DRIVER_CA_FILE may be missing
    return _PROBLEMS.get(failure.cause, f"the key system {failure.cause.words}")


class HttpDriver:
    """`refusals`: the error for each HTTP status, or for each code that the system itself gives."""

    system: ClassVar[str]  # its name in messages
    default_endpoint: ClassVar[str] = ""
    refusals: ClassVar[Mapping[int | str, DriverError]]

    def __init__(self, context: DriverContext) -> None:
        self._client, self._clock = context.client, context.clock
        self._endpoint = (context.endpoint or self.default_endpoint).rstrip("/")
        self._tokens = AccessTokens(context.clock)

    async def close(self) -> None:
        self._tokens.clear()

    def _refusal(self, answer: HttpAnswer, code: int | str = 0) -> DriverError:
        """The error for an answer that is no success."""
        known = self.refusals.get(code) or self.refusals.get(answer.status)
        if known is None:
            return AnswerRejected(f"{self.system} answered HTTP {answer.status}")
        return type(known)(*known.args)  # a new one each time: an exception collects its traceback

    def _from_base64(self, text: str, what: str) -> bytes:
        with failing_as(AnswerRejected(f"{self.system}'s {what} is not in base64")):
            return b64decode(text, validate=True)
