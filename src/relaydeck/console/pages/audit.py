"""The audit log: filtered, newest first, and verified on request."""

from relaydeck.console.live import answer_with_result
from relaydeck.console.page_request import PageRequest, get, listing
from relaydeck.http.pipeline import Reply

listing("list_audit", order="newest")


@get("/audit/verify")
async def show_verification(request: PageRequest) -> Reply:
    return await answer_with_result(
        request,
        request.services.verification,
        lambda found: request.page("audit_verified.html", found=found, is_live=False),
    )
