"""Search from anywhere: records, and the pages of the menu."""

from relaydeck.console.admin_calls import Result
from relaydeck.console.fleet import read_overviews
from relaydeck.console.page_request import PageRequest, get
from relaydeck.http.pipeline import Reply

_FILTERS = {"relayer": "name", "network": "name", "signer": "id", "notification": "id", "token": "name"}  # of the lists


@get("/find", "find")
async def show(request: PageRequest) -> Reply:
    text = request.query.get("text", "").strip()
    result = await request.call("find", text=text) if text else Result([])
    found = result.data
    # Of a kind with more matches, at least one is among the first. Lists are not filtered by address.
    filters = [(each, each["kind"], _FILTERS.get(each["kind"], "")) for each in found if result.notes]
    lists = {kind: field for each, kind, field in filters if field and text.lower() in each[field].lower()}
    named = [each for group in request.menu for each in group if text and text.lower() in each[1].lower()]
    named_relayers = [each["id"] for each in found if each["kind"] == "relayer"]
    seen = await request.read(lambda store: read_overviews(store.database.read, named_relayers))
    return request.page("find.html", text=text, found=found, pages=named, seen=seen, notes=result.notes, lists=lists)
