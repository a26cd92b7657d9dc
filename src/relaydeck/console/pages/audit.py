"""The audit log: filtered, newest first, as a file, planned back entry by entry, and verified on request."""

import msgspec

from relaydeck.console.admin_calls import Json
from relaydeck.console.live import answer_with_result
from relaydeck.console.page_request import PageRequest, get, post
from relaydeck.console.pages.apply import plan_page
from relaydeck.console.rendering import csv_file
from relaydeck.errors import NotPossible, RecordNotFound
from relaydeck.http.pipeline import Reply
from relaydeck.provisioning.revert import reverted_document, reverted_resource

_MOST_ROWS = 1000  # of a file
_GREATEST_DIGITS = 18


@get("/audit")
async def show(request: PageRequest) -> Reply:
    return request.page("audit.html", most=_MOST_ROWS, **await request.listed("list_audit", order="newest"))


@get("/audit/csv")
async def show_file(request: PageRequest) -> Reply:
    """The newest that match."""
    listed = (await request.listed("list_audit", per_page=_MOST_ROWS, order="newest"))["listed"]
    return csv_file("audit", [_row(each) for each in listed])


def _row(entry: Json) -> Json:
    names = ("sequence", "at", "actor", "origin", "action", "record")
    changes = {name: entry[name] and msgspec.json.encode(entry[name]).decode() for name in ("before", "after")}
    return {name: entry.get(name) for name in names} | changes


@post("/audit/{id}/revert", "apply")
async def plan_back(request: PageRequest) -> Reply:
    """The plan of a document with what was before, on the page of plans: nothing is changed yet."""
    number = request.identifier
    if not (number.isascii() and number.isdigit() and len(number) <= _GREATEST_DIGITS):
        raise RecordNotFound("entry")
    found = (await request.call("list_audit", after=str(int(number) - 1), per_page="1")).data if int(number) else []
    if not found or found[0]["sequence"] != int(number):
        raise RecordNotFound("entry")
    action, record, before = (found[0][name] for name in ("action", "record", "before"))
    if reverted_resource(action, before) is None:
        raise NotPossible("This change cannot be planned back: what was before is hidden or not recorded")
    if action.endswith(".updated"):
        await request.call(f"get_{action.partition('.')[0]}", record)  # refuses one outside the scope
    text = await request.read(lambda store: reverted_document(store, action, record, before))
    return await plan_page(request, text, prune=False)


@get("/audit/verify", "verify_audit")
async def show_verification(request: PageRequest) -> Reply:
    return await answer_with_result(
        request,
        request.services.verification,
        lambda found: request.page("audit_verified.html", found=found, is_live=False),
    )
