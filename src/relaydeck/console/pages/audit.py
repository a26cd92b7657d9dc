"""The audit log: filtered, newest first, as a file, planned back entry by entry, and verified on request."""

import msgspec

from relaydeck.console.admin_calls import Json
from relaydeck.console.confirmation import worded_entries
from relaydeck.console.live import answer_with_result
from relaydeck.console.page_request import PageRequest, get, post
from relaydeck.console.pages.apply import plan_page
from relaydeck.console.pages.selected import MOST_SELECTED
from relaydeck.console.rendering import csv_file
from relaydeck.console.request import whole_number
from relaydeck.errors import NotPossible, RecordNotFound
from relaydeck.http.pipeline import Reply
from relaydeck.provisioning.revert import resource_of, reverted_document, reverted_resource
from relaydeck.provisioning.stored import Stored
from relaydeck.scope import Scope
from relaydeck.store.open_store import Store

_MOST_ROWS = 1000  # of a file


@get("/audit")
async def show(request: PageRequest) -> Reply:
    found = await request.listed("list_audit", order="newest")
    fixed = await request.read(lambda store: _fixed(store, request.operator.scope, found["listed"]))
    shown = found | {"listed": await worded_entries(request, found["listed"]), "fixed": fixed}
    return request.page("audit.html", most=request.at_most(_MOST_ROWS), **shown)


def _fixed(store: Store, scope: Scope | None, entries: list[Json]) -> set[int]:
    """The numbers of the entries about records that a scope shows and may not change: none is planned back."""
    if scope is None:
        return set()
    stored, fixed = Stored(store.database.read, store.vault), set[int]()
    for each in entries:
        resource, record = resource_of(each["action"]), each["record"]
        if resource and not scope.may_change(resource[:-1], record, stored.labels(resource, record)):
            fixed.add(each["sequence"])
    return fixed


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
    """The plan of a document with what was before, on the page of plans: nothing is changed yet.

    With `last`, that of all entries up to it, which one change of several records has made.
    """
    first, last = _number(request.identifier), _number(request.form.get("last", request.identifier))
    entries = await _entries(request, first, min(last, first + _MOST_ROWS))
    if not entries or entries[0]["sequence"] != first:
        raise RecordNotFound("entry")
    texts = [await _written_back(request, each) for each in entries]
    together = await _made_together(request, entries[0]) if first == last else []
    return await plan_page(request, "\n".join(texts), prune=False, together=together)


def _number(text: str) -> int:
    if not (number := whole_number(text)):
        raise RecordNotFound("entry")
    return number


async def _entries(request: PageRequest, first: int, last: int) -> list[Json]:
    asked: Json = {"after": str(max(0, first - 1)), "per_page": str(last - first + 1)}
    found = (await request.call("list_audit", **asked)).data
    return [each for each in found if each["sequence"] <= last]


async def _made_together(request: PageRequest, entry: Json) -> list[int]:
    """The numbers of the entries around this one that the same actor made at the same moment: one change made them."""
    number = entry["sequence"]
    around = await _entries(request, max(1, number - MOST_SELECTED), number + MOST_SELECTED)
    alike = [each for each in around if all(each.get(name) == entry.get(name) for name in ("at", "actor", "action"))]
    found = [each["sequence"] for each in alike]
    return found if found == list(range(found[0], found[-1] + 1)) and len(found) > 1 else []


async def _written_back(request: PageRequest, entry: Json) -> str:
    """Raises NotPossible."""
    action, record, before = (entry[name] for name in ("action", "record", "before"))
    if reverted_resource(action, before) is None:
        raise NotPossible("This change cannot be planned back: what was before is hidden or not recorded")
    if action.endswith(".updated"):
        await request.call(f"get_{action.partition('.')[0]}", record)  # refuses one outside the scope
    return await request.read(lambda store: reverted_document(store, action, record, before))


@get("/audit/verify", "verify_audit", shows=())
async def show_verification(request: PageRequest) -> Reply:
    return await answer_with_result(
        request,
        request.services.verification,
        lambda found: request.page("audit_verified.html", found=found, is_live=False),
    )
