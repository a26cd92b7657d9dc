"""The overview: whether the fleet is well, and what is wrong where it is not."""

from relaydeck.console.fleet import FleetReader
from relaydeck.console.services import Page, Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.http.pipeline import Reply

_LATEST = "8"
_FIRST = "5"


def pages(_services: PageServices) -> Pages:
    overview = _overview(FleetReader())
    return {"": {"GET": overview}, "/": {"GET": overview}}


def _overview(reader: FleetReader) -> Page:
    async def show(visit: Visit) -> Reply:
        fleet = await visit.read(reader.read)
        runways = await visit.admin.read("runways", first=_FIRST)
        changes = await visit.admin.read("audit", order="newest", per_page=_LATEST)
        return visit.page("overview.html", fleet=fleet, changes=changes.data, runways=runways.data["runways"])

    return show
