"""One server as commands reach it: every failure becomes words that an operator can act on."""

from typing import Any, Literal

import msgspec

from relaydeck.client import Client
from relaydeck.client.address import read_address
from relaydeck.client.errors import (
    ApiError,
    ClientError,
    ConnectFailed,
    ConnectionLost,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from relaydeck.client.models import Body
from relaydeck.errors import OperatorError
from relaydeck.secret import Secret

UNCHANGED = "Nothing was changed."
_TIMEOUT_SECONDS = 60.0  # of one attempt; a check of a key or of slow nodes takes its time
_PATIENT_SECONDS = 900.0
_PATIENT_BYTES = 1024 * 1024 * 1024  # an export of a large fleet
_UNCERTAIN = "The change may have been made: look before you repeat it."
Method = Literal["GET", "POST", "PATCH", "DELETE"]


_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Refused(OperatorError):
    """The server refused a request; `error` has the details."""

    def __init__(self, problem: str, remedy: str, error: ApiError) -> None:
        super().__init__(problem, remedy)
        self.error = error


class Connection:
    def __init__(self, url: str, token: Secret, timeout: float = _TIMEOUT_SECONDS, **options: Any) -> None:
        self.url = url
        self._token = token
        try:
            self._client = Client(url, token.reveal(), timeout=timeout, **options)
        except ValueError as error:
            raise OperatorError(str(error), "Check --server or RELAYDECK_URL, and the token.") from None

    def patient(self) -> "Connection":
        """The same server, for a request that takes minutes."""
        return Connection(self.url, self._token, _PATIENT_SECONDS, max_response_bytes=_PATIENT_BYTES)

    # Each call names the type of the data that it expects, so that commands need not doubt what they print.

    def get(self, kind: Any, /, *segments: str, **query: object) -> Body:
        return self._run(kind, "GET", *segments, remedy="", query=query)

    def ask(self, kind: Any, *segments: str, document: object = None) -> Body:
        """A POST that changes no record."""
        return self._run(kind, "POST", *segments, remedy="", document=document)

    def request(self, kind: Any, method: Method, *segments: str, **more: Any) -> Body:
        """Raises OperatorError; Refused when the server answered."""
        return self._run(kind, method, *segments, remedy=UNCHANGED, **more)

    def _run(self, kind: Any, method: Method, *segments: str, remedy: str, **more: Any) -> Body:
        try:
            found = self._client.admin.request(method, *segments, **more)
            msgspec.convert(found.data, kind)
        except ClientError as error:
            raise self._words(error, remedy) from None
        except msgspec.ValidationError as error:
            remedy = _UNCERTAIN if remedy else "Check that it is a Relaydeck service of this version."
            raise OperatorError(f"{self.url}: the response is not as described: {error}", remedy) from None
        return found

    def _words(self, error: ClientError, remedy: str) -> OperatorError:
        if error.uncertain and remedy:
            remedy = _UNCERTAIN
        if isinstance(error, ApiError):
            return Refused(*_refusal(error, self.url, remedy), error)
        if isinstance(error, ConnectFailed):
            return _unreachable(str(error))
        if isinstance(error, ConnectionLost) and self.url.startswith("http:"):
            remedy = f"{remedy} If the server uses TLS, its URL starts with https://.".strip()
        return OperatorError(f"{self.url}: {error}", remedy)


def is_unencrypted(url: str) -> bool:
    """Whether the token travels in clear text between machines."""
    address = read_address(url)
    return not address.secure and address.host not in _LOOPBACK


def _unreachable(problem: str) -> OperatorError:
    if "WRONG_VERSION_NUMBER" in problem:
        return OperatorError(
            f"{problem.partition(': [SSL')[0]}: this port does not use TLS", "Try the same URL with http:// instead."
        )
    if "certificate verify failed" not in problem:
        return OperatorError(problem, "Check --server or RELAYDECK_URL, and that the service is running.")
    server, _, reason = problem.partition(": [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: ")
    return OperatorError(
        f"{server}: its TLS certificate is not trusted: {reason.partition(' (_ssl')[0]}",
        "For a private certificate authority, set SSL_CERT_FILE to its certificate (PEM).",
    )


def _refusal(error: ApiError, url: str, remedy: str) -> tuple[str, str]:
    """The problem and the remedy."""
    if isinstance(error, Unauthorized):
        return f"{url} does not accept the token", "It is unknown, expired or revoked there: 'relaydeck token list'."
    if isinstance(error, Forbidden):
        return f"{url}: the token is not of kind admin", "Create one with 'relaydeck token create NAME --kind admin'."
    if isinstance(error, NotFound) and not error.problem:
        return f"{url} is not a Relaydeck service with an admin API", "Check --server or RELAYDECK_URL."
    if isinstance(error, TooManyRequests):
        return f"{url} limits the rate of requests of this token", "Wait a moment."
    if isinstance(error, ServerError):
        return f"{url} failed: {error}", remedy
    return error.reason or error.message, remedy
