"""A page of a list as a whole body."""

import msgspec

from relaydeck.http.envelope import LogEntry, Metadata, Pagination, Success
from relaydeck.http.paging import Page
from relaydeck.store.listing import Listing


def encode_page(listing: Listing, page: Page) -> bytes:
    """The whole body of a list response; the page's items must be filled."""
    start, stop = page.bounds(listing.total)
    logs = [LogEntry(message=note) for note in listing.notes(start, stop)]
    if page.coerced:
        logs.append(LogEntry(message=f"per_page was reduced to the largest allowed, {page.per_page}"))
    success = Success(
        data=msgspec.Raw(b"[" + b",".join(listing.items(start, stop)) + b"]"),
        metadata=Metadata(logs=logs),
        # Digits are JSON already: an integer of 5,000 of them is passed through, not computed with.
        pagination=Pagination(msgspec.Raw(page.number.encode()), page.per_page, listing.total),  # type: ignore[arg-type]
    )
    return msgspec.json.encode(success)
