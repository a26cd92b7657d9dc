"""One call from its first attempt to its result, without input or output.

`Exchange.run` is a generator: it yields a `Request` to send, or a number of seconds to wait, and a transport sends the
outcome back in. The synchronous and the asynchronous client differ only in who drives it.
"""

import logging
import random
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import msgspec

from relaydeck.client.calls import UNREADABLE, Call, Repeat
from relaydeck.client.errors import ApiError, BadRequest, ClientError, UnexpectedResponse, api_error_class
from relaydeck.client.messages import MaskedText, Outcome, Request, Response
from relaydeck.client.models import whole_number
from relaydeck.client.retries import Retry

T = TypeVar("T")
Step = Request | float
Steps = Generator[Step, Outcome | None, T]

_log = logging.getLogger(__name__)


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
        if uncertain and call.settle is not None and isinstance(error, ApiError):
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

    def _failure(self, call: Call[Any], outcome: Outcome) -> ClientError | None:
        if not isinstance(outcome, Response):
            return outcome
        if 200 <= outcome.status < 300:
            return None
        return error_of(outcome)

    def _result(self, call: Call[T], response: Response) -> T:
        if call.repeat is not Repeat.READ:
            self._remember(response)
        try:
            return call.read(response)
        except UnexpectedResponse as error:
            error.uncertain = call.repeat is not Repeat.READ
            raise

    def _remember(self, response: Response) -> None:
        given = response.headers.get("Relaydeck-Revision")
        if given is not None and (revision := whole_number(given)) is not None:
            self.revision = max(self.revision, revision)

    def _pause(self, call: Call[Any], error: ClientError, attempt: int) -> float | None:
        if self.revision and isinstance(error, BadRequest) and "Min-Revision" in error.reason:
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


def error_of(response: Response) -> ClientError:
    """The error of a response, in the three described fields or as RFC 9457 problem details."""
    body = _object_of(response.body)
    message = body.get("message") or body.get("title")
    if not isinstance(message, str):
        if response.status not in (429, 500, 502, 503, 504):
            return UnexpectedResponse(_unexpected(response), status=response.status)
        message = f"HTTP status {response.status}"  # of a proxy in between
    return api_error_class(response.status, message)(
        message,
        status=response.status,
        reason=_text(body.get("detail")) or response.headers.get("Relaydeck-Reason") or "",
        request_id=response.headers.get("X-Request-Id") or "",
        retry_after=_seconds(response.headers.get("Retry-After")),
        problem=body if "title" in body else None,
    )


def _object_of(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except UNREADABLE:
        return {}
    return found if isinstance(found, dict) else {}


def _unexpected(response: Response) -> str:
    if 300 <= response.status < 400:
        return "the address leads elsewhere; give the client the final one, redirects are not followed"
    return "the response has no described error body"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _seconds(given: str | None) -> float | None:
    seconds = whole_number(given or "")
    return None if seconds is None else float(seconds)
