"""`page` and `per_page`: plain decimal integers of any length; 0 means "not given"."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from relaydeck.errors import BadRequest
from relaydeck.http.parameters import query_parameters

DEFAULT_PER_PAGE = 10
MOST_PAGE_BYTES = 16 * 1024 * 1024
_FITS = 18  # this many digits always fit a machine integer; a longer number is past the end of any list

_encode = msgspec.json.Encoder().encode


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
