"""One call from its first attempt to its result, without input or output.

`Exchange.run` is a generator: it yields a `Request` to send, or a number of seconds to wait, and a transport sends the
outcome back in. The synchronous and the asynchronous client differ only in who drives it.
"""

import logging
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from relaydeck.client import errors
from relaydeck.client.calls import UNREADABLE, Call, MaskedText, Outcome, Repeat, Request, Response, whole_number

T = TypeVar("T")
Step = Request | float
Steps = Generator[Step, Outcome | None, T]
MOST_RESPONSE_BYTES = 64 * 1024 * 1024  # unless the client is told otherwise

_log = logging.getLogger(__name__)


class Address(NamedTuple):
    secure: bool
    host: str
    port: int
    prefix: str  # of every path: a service may live below one

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"


def read_address(url: str) -> Address:
    """Raises ValueError, which does not quote the URL: it may hold a password."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the service's URL must start with http:// or https:// and name a host")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("the service's URL must hold no user name, query or fragment; the token is an argument")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("the service's URL must be percent-encoded and in ASCII, without blanks")
    secure = parts.scheme == "https"
    return Address(secure, parts.hostname, parts.port or (443 if secure else 80), parts.path.rstrip("/"))


@dataclass(frozen=True, slots=True)
class Retry:
    """`attempts` in all, with pauses that double from `first_pause` to `longest_pause` seconds.

    Each pause is a random part of that ("full jitter"), so that clients which failed together do not return together.
    A service that asks for more than `longest_wait` seconds (`Retry-After`) is not waited for: the error is raised.

    >>> Retry(attempts=1)          # never repeat anything
    Retry(attempts=1, first_pause=0.1, longest_pause=5.0, longest_wait=30.0)
    """

    attempts: int = 4
    first_pause: float = 0.1
    longest_pause: float = 5.0
    longest_wait: float = 30.0

    def pause(self, error: errors.ClientError, attempt: int, repeat: Repeat, share: float) -> float | None:
        """Seconds to wait before the next attempt; None: raise. `share` is a random number below 1."""
        if attempt >= self.attempts or not _may_repeat(error, repeat):
            return None
        jitter = share * min(self.longest_pause, self.first_pause * 2 ** (attempt - 1))
        wait = error.retry_after if isinstance(error, errors.ApiError) and error.retry_after else 0.0
        return None if wait > self.longest_wait else wait + jitter


def _may_repeat(error: errors.ClientError, repeat: Repeat) -> bool:
    if isinstance(error, errors.TooManyRequests):
        return True  # refused before any work
    if isinstance(error, errors.TransportError):
        return not error.sent or repeat is not Repeat.NEVER
    return isinstance(error, errors.ApiError) and error.status >= 500 and repeat is not Repeat.NEVER


class Exchange:
    """`prefix` is the path of the service's address; `share` gives random numbers below 1."""

    def __init__(self, prefix: str, token: str, retry: Retry, share: Callable[[], float] = random.random) -> None:
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError("the token is empty or holds a character that no token has, such as a line break")
        self._prefix = prefix
        self._retry = retry
        self._share = share
        self._headers = {
            "Authorization": MaskedText(f"Bearer {token}"),
            "Accept": "application/json",
            "User-Agent": "relaydeck-client",
        }
        self.revision = 0  # the newest write of this client: later reads are answered with nothing older

    def run(self, call: Call[T]) -> Steps[T]:
        attempt, uncertain = 1, False
        while True:
            outcome = yield self._request(call)
            assert outcome is not None
            error = self._failure(call, outcome)
            if error is None:
                return self._result(call, outcome)  # type: ignore[arg-type]
            pause = self._pause(call, error, attempt)
            if pause is None:
                break
            uncertain = uncertain or error.uncertain
            _log.info("%s %s: %s; attempt %d in %.1f s", call.method, call.target, error, attempt + 1, pause)
            yield pause
            attempt += 1
        if uncertain and call.settle is not None and isinstance(error, errors.ApiError):
            return (yield from self._settled(call.settle(error)))
        error.uncertain = (uncertain or error.uncertain) and call.repeat is not Repeat.READ
        raise error

    def _request(self, call: Call[Any]) -> Request:
        headers = self._headers
        if call.headers:
            headers = headers | call.headers  # type: ignore[operator]
        if self.revision and call.repeat is Repeat.READ:
            headers = headers | {"Relaydeck-Min-Revision": str(self.revision)}
        return Request(call.method, self._prefix + call.target, headers, call.body)

    def _failure(self, call: Call[Any], outcome: Outcome) -> errors.ClientError | None:
        if not isinstance(outcome, Response):
            return outcome
        if outcome.status == 202:
            return _proposed(outcome)
        if 200 <= outcome.status < 300:
            return None
        return error_of(outcome)

    def _result(self, call: Call[T], response: Response) -> T:
        if call.repeat is not Repeat.READ:
            written = whole_number(response.headers.get("Relaydeck-Revision") or "")
            self.revision = max(self.revision, written or 0)
        try:
            return call.read(response)
        except errors.UnexpectedResponse as error:
            error.uncertain = call.repeat is not Repeat.READ
            raise

    def _pause(self, call: Call[Any], error: errors.ClientError, attempt: int) -> float | None:
        if self.revision and isinstance(error, errors.BadRequest) and "Min-Revision" in error.reason:
            self.revision = 0  # the database was replaced by an older one: its revisions start again
            return 0.0
        return self._retry.pause(error, attempt, call.repeat, self._share())

    def _settled(self, settlement: Generator[Call[Any], Any, T]) -> Steps[T]:
        result: Any = None
        while True:
            try:
                call = settlement.send(result)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            result = yield from self.run(call)


def _proposed(response: Response) -> errors.ClientError:
    proposal = _object_of(response.body).get("data")
    if not isinstance(proposal, dict):
        return errors.UnexpectedResponse("the response has no proposal", status=response.status)
    reason = f"nothing has changed yet, and another has to approve the proposal {proposal.get('id')}"
    return errors.ChangeProposed("The change needs approval", status=response.status, reason=reason, problem=proposal)


def error_of(response: Response) -> errors.ClientError:
    """The error of a response, in the three described fields or as RFC 9457 problem details."""
    body, headers = _object_of(response.body), response.headers
    message, detail = body.get("message") or body.get("title"), body.get("detail")
    if not isinstance(message, str):
        if 300 <= response.status < 400:
            problem = "the address leads elsewhere; give the client the final one, redirects are not followed"
            return errors.UnexpectedResponse(problem, status=response.status)
        if response.status not in (429, 500, 502, 503, 504):
            return errors.UnexpectedResponse("the response has no described error body", status=response.status)
        message = f"HTTP status {response.status}"  # of a proxy in between
    return errors.ApiError.class_of(response.status, message)(
        message,
        status=response.status,
        reason=detail if detail and isinstance(detail, str) else headers.get("Relaydeck-Reason") or "",
        request_id=headers.get("X-Request-Id") or "",
        retry_after=whole_number(headers.get("Retry-After") or ""),
        problem=body if "title" in body else None,
    )


def _object_of(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except UNREADABLE:
        return {}
    return found if isinstance(found, dict) else {}


def too_large(status: int, most: int) -> errors.UnexpectedResponse:
    """The outcome of a response that is not read to its end: a server may send one that has none."""
    return errors.UnexpectedResponse(f"the response is larger than {most} bytes", status=status)
