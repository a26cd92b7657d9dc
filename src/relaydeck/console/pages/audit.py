"""The audit log: filtered, newest first, and verified on request."""

from relaydeck.console.paging import PER_PAGE, Pager, kept, page_number
from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.console.work import answer_with_result
from relaydeck.http.pipeline import Reply

_FILTERS = ("actor", "action", "record")


def pages(services: PageServices) -> Pages:
    async def show_verification(visit: Visit) -> Reply:
        return await answer_with_result(
            visit,
            services.verification,
            lambda found: visit.page("audit_verified.html", found=found),
            services.is_stopping,
        )

    return {"/audit": {"GET": show_list}, "/audit/verify": {"GET": show_verification}}


async def show_list(visit: Visit) -> Reply:
    query, number = kept(visit.query, *_FILTERS), page_number(visit.query)
    found = await visit.admin.read("audit", page=str(number), per_page=str(PER_PAGE), order="newest", **query)
    return visit.page("audit.html", entries=found.data, pager=Pager(number, found.total, query))
