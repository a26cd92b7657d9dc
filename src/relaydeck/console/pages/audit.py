"""The audit log: filtered, newest first, and verified on request."""

from relaydeck.console.paging import PER_PAGE, Pager, kept, page_number
from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.http.pipeline import Reply
from relaydeck.store.audit import BrokenLink, Head, verify
from relaydeck.store.open_store import Store

_FILTERS = ("actor", "action", "record")


def pages(_services: PageServices) -> Pages:
    return {"/audit": {"GET": show_list}, "/audit/verify": {"GET": show_verification}}


async def show_list(visit: Visit) -> Reply:
    query, number = kept(visit.query, *_FILTERS), page_number(visit.query)
    found = await visit.admin.read("audit", page=str(number), per_page=str(PER_PAGE), order="newest", **query)
    return visit.page("audit.html", entries=found.data, pager=Pager(number, found.total, query), verified=None)


async def show_verification(visit: Visit) -> Reply:
    found = await visit.read(_verify)
    broken, head = (found, None) if isinstance(found, BrokenLink) else (None, found)
    return visit.page("audit_verified.html", broken=broken, head=head)


def _verify(store: Store) -> Head | BrokenLink:
    return verify(store.database.stream, store.vault)
