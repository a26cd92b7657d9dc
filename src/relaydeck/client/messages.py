"""What travels between the client's core and a transport. The core does no input or output."""

from collections.abc import Mapping
from typing import NamedTuple

from relaydeck.client.errors import TransportError, UnexpectedResponse
from relaydeck.client.models import Headers


class MaskedText(str):
    """Text that a repr does not show: a dictionary of headers can appear in a traceback that lists variables."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class Request(NamedTuple):
    method: str
    target: str  # path and query, percent-encoded
    headers: Mapping[str, str]
    body: bytes | None

    def __repr__(self) -> str:
        """Without headers and body: both may hold secrets."""
        return f"<Request {self.method} {self.target}>"


class Response(NamedTuple):
    status: int
    headers: Headers
    body: bytes

    def __repr__(self) -> str:
        return f"<Response {self.status}>"


MOST_RESPONSE_BYTES = 64 * 1024 * 1024  # unless the client is told otherwise


def too_large(status: int, most: int) -> UnexpectedResponse:
    """The outcome of a response that is not read to its end: a server may send one that has none."""
    return UnexpectedResponse(f"the response is larger than {most} bytes", status=status)


Outcome = Response | TransportError | UnexpectedResponse
"""What one attempt led to. A failure is a value here: raised later, it carries no frames of the HTTP library,
whose variables hold the token."""
