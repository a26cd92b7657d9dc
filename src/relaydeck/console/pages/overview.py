"""The overview: whether the fleet is well, and what is wrong where it is not."""

from relaydeck.console.page_request import PageRequest, get
from relaydeck.http.pipeline import Reply


@get("")
@get("/")
async def show(request: PageRequest) -> Reply:
    fleet = await request.services.read(request.services.fleet.read)
    runways = await request.call("list_runways", first="5")
    changes = await request.call("list_audit", order="newest", per_page="8")
    return request.page("overview.html", fleet=fleet, changes=changes.data, runways=runways.data["runways"])
