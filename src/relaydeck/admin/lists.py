"""Lists of the admin API: filters, order and pages are the same for every collection."""

import msgspec

from relaydeck.admin import queries
from relaydeck.admin.collections import Collection
from relaydeck.admin.operation import Content, Request
from relaydeck.admin.queries import RecordPage
from relaydeck.admin.store_thread import StoreThread
from relaydeck.http.envelope import Pagination
from relaydeck.http.paging import Page, encode_items, read_page


class Lists:
    def __init__(self, reads: StoreThread, max_per_page: int) -> None:
        self._reads = reads
        self._max_per_page = max_per_page

    async def list_page(self, request: Request, collection: Collection) -> Content:
        page, query = read_page(request.query_string, self._max_per_page), request.read_query()
        newest = queries.newest_first(query)
        found = await self._reads.run(
            lambda store: queries.list_page(store.database.read, store.vault, collection, query, page, newest=newest)
        )
        return _page_content(found, page)


def _page_content(found: RecordPage, page: Page) -> Content:
    notes = [*(note for view in found.records for note in view.notes), *page.notes]
    number = msgspec.Raw(page.number.encode())  # digits are JSON already, however many
    pagination = Pagination(number, page.per_page, found.total)  # type: ignore[arg-type]
    items = encode_items(view.body for view in found.records)
    return Content(items, notes=tuple(notes), pagination=pagination)
