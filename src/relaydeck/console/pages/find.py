"""Search from anywhere: records, and the pages of the menu."""

from relaydeck.console.fleet import read_overviews
from relaydeck.console.page_request import PageRequest, get
from relaydeck.http.pipeline import Reply


@get("/find", "find")
async def show(request: PageRequest) -> Reply:
    text = request.query.get("text", "").strip()
    found = (await request.call("find", text=text)).data if text else []
    named = [each for group in request.menu for each in group if text and text.lower() in each[1].lower()]
    named_relayers = [each["id"] for each in found if each["kind"] == "relayer"]
    seen = await request.read(lambda store: read_overviews(store.database.read, named_relayers))
    return request.page("find.html", text=text, found=found, pages=named, seen=seen)
