"""The two list operations: from a query to a whole body."""

from collections.abc import Callable

import msgspec

from relaydeck.http.envelope import LogEntry, Metadata, Pagination, Success
from relaydeck.http.paging import Page, join_items, read_page
from relaydeck.store.listing import Listing

# Rendered pages are kept until the next write: enough for every client that polls, bounded in memory.
_MOST_RENDERED = 256
_LARGEST_RENDERED = 65_536

# Reads the items that a page of a listing lacks. The function returns the page's bounds for a total.
Fill = Callable[[Listing, Callable[[int], tuple[int, int]]], None]


class Pages:
    """The pages of one listing."""

    def __init__(self, listing: Listing, fill: Fill, max_per_page: int) -> None:
        self._listing = listing
        self._fill = fill
        self._max_per_page = max_per_page
        self._rendered: dict[bytes, bytes] = {}

    def page(self, query: bytes) -> bytes:
        return self._rendered.get(query) or self._render(query)

    def forget(self) -> None:
        self._rendered.clear()

    def _render(self, query: bytes) -> bytes:
        page = read_page(query, self._max_per_page)
        if not self._listing.has(*page.bounds(self._listing.total)):
            self._fill(self._listing, page.bounds)
        body = encode_page(self._listing, page)
        if len(self._rendered) < _MOST_RENDERED and len(body) <= _LARGEST_RENDERED:
            self._rendered[query] = body
        return body


# sentence: 1-envelope 2.1-pagination 4.2-list 4.4-list
def encode_page(listing: Listing, page: Page) -> bytes:
    """The whole body of a list response; the items of the page must be filled. Raises BadRequest."""
    start, stop = page.bounds(listing.total)
    logs = [LogEntry(message=note) for note in (*listing.notes(start, stop), *page.notes)]
    success = Success(
        data=join_items(listing.items(start, stop)),
        metadata=Metadata(logs=logs),
        # Digits are JSON already: a page number of 5,000 digits is passed through as it is.
        pagination=Pagination(msgspec.Raw(page.number.encode()), page.per_page, listing.total),  # type: ignore[arg-type]
    )
    return msgspec.json.encode(success)
