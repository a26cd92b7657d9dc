"""Parts of a request: the types of the ASGI interface, its sender, its parameters and the page that it asks for.

`page` and `per_page` are plain decimal integers of any length; 0 means "not given".
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from relaydeck.errors import BadRequest
from relaydeck.identifiers import identifier_problem
from relaydeck.settings.values import AddressRange

DEFAULT_PER_PAGE = 10
MOST_PAGE_BYTES = 16 * 1024 * 1024
_FITS = 18  # this many digits always fit a machine integer; a longer number is past the end of any list

_encode = msgspec.json.Encoder().encode


Peer = tuple[str, object] | None


class ClientAddress:
    def __init__(self, trusted: Sequence[AddressRange]) -> None:
        self._trusted = tuple(trusted)
        self._trusts = lru_cache(maxsize=4096)(self._is_trusted)

    def address_of(self, peer: Peer, forwarded: bytes | None) -> str:
        if peer is None:
            return "-"
        if forwarded and self._trusted and self._trusts(peer[0]):
            return self._forwarded(peer[0], forwarded)
        return peer[0]

    def _forwarded(self, peer: str, forwarded: bytes) -> str:
        """The last address that is not a trusted proxy."""
        client = peer
        for hop in reversed(forwarded.decode("latin-1").split(",")):
            try:
                client = _plain_address(hop.strip())
            except ValueError:
                break  # a trusted proxy writes addresses only
            if not self._trusts(client):
                break
        return client

    def _is_trusted(self, address: str) -> bool:
        try:
            found = ip_address(address)
        except ValueError:
            return False
        return any(found in trusted for trusted in self._trusted)


def _plain_address(text: str) -> str:
    if "%" in text:
        raise ValueError  # a zone may contain any character, even one that ends a field of the log
    return str(ip_address(text))


Scope = dict[str, Any]  # what the server read of a request before its body
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Handle = Callable[[Scope, Receive, Send], Awaitable[None]]


# No operation reads more than a dozen. Without a bound, parsing 64 kB of separators takes a tenth of a second.
MOST_PARAMETERS = 100


def path_identifier(encoded: str) -> str:
    """The identifier in a path segment: percent-decoded UTF-8. Raises BadRequest."""
    try:
        identifier = unquote_to_bytes(encoded).decode() if "%" in encoded else encoded
    except UnicodeDecodeError:
        raise BadRequest("the identifier in the path is not UTF-8") from None
    if problem := identifier_problem(identifier):
        raise BadRequest(f"the identifier in the path {problem}")
    return identifier


def query_parameters(query: bytes) -> list[tuple[str, str]]:
    """Names and values in their order; a name may occur more than once. Raises BadRequest."""
    try:
        return parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise BadRequest(f"the query has more than {MOST_PARAMETERS} parameters") from None


class Page(NamedTuple):
    number: str  # decimal digits: a page number may be too long to compute with
    per_page: int
    coerced: bool

    @property
    def notes(self) -> tuple[str, ...]:
        return (f"per_page was reduced to the largest allowed, {self.per_page}",) if self.coerced else ()

    def bounds(self, total: int) -> tuple[int, int]:
        """The first item of the page in a list of `total` items, and the end."""
        if len(self.number) > _FITS:
            return total, total
        start = min((int(self.number) - 1) * self.per_page, total)
        return start, min(start + self.per_page, total)


# sentence: 4.2-page 4.2-per-page 4.2-bad-request 4.4-page 4.4-per-page 4.4-bad-request
def read_page(query: bytes, max_per_page: int) -> Page:
    given: dict[str, str] = {}
    for name, value in query_parameters(query):
        if name in ("page", "per_page"):
            if name in given:
                raise BadRequest(f"{name} is given twice")
            given[name] = _digits(name, value)
    number = given.get("page", "0")
    asked = given.get("per_page", "0")
    coerced = len(asked) > _FITS or int(asked) > max_per_page
    per_page = max_per_page if coerced else int(asked) or min(DEFAULT_PER_PAGE, max_per_page)
    return Page(number if number != "0" else "1", per_page, coerced)


def join_items(items: Iterable[bytes]) -> msgspec.Raw:
    """The encoded items of a page as a JSON array. Raises BadRequest as soon as they are too long for one response."""
    size, found = 0, []
    for item in items:
        size += len(item)
        if size > MOST_PAGE_BYTES:
            raise BadRequest(f"the page has more than {MOST_PAGE_BYTES} bytes: use a smaller per_page")
        found.append(item)
    return msgspec.Raw(b"[" + b",".join(found) + b"]")


def encode_items(items: Iterable[Any]) -> msgspec.Raw:
    """The same for items that are not encoded yet."""
    return join_items(map(_encode, items))


def _digits(name: str, value: str) -> str:
    if not (value.isascii() and value.isdigit()):
        raise BadRequest(f"{name} must be a plain decimal integer of at least 0")
    return value.lstrip("0") or "0"
