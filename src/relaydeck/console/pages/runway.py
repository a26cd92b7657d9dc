"""Runway: what runs out first, what to send where, and the list for whoever sends it."""

import time
from collections.abc import Sequence

from relaydeck.console.fleet import RelayerOverview
from relaydeck.console.formats import address_code
from relaydeck.console.page_request import RELAYERS, Pager, PageRequest, get
from relaydeck.console.pages.selected import read_selected
from relaydeck.console.rendering import csv_file, picture
from relaydeck.console.request import whole_number
from relaydeck.errors import BadRequest
from relaydeck.http.pipeline import Reply
from relaydeck.relayers.runway import DEFAULT_DAYS, Runway, read_runways
from relaydeck.timestamps import utc

_PER_PAGE = 25  # a forecast reads the history of a week
_MOST_ROWS = 200  # of a file
_MOST_DAYS = 3650


@get("/runway", shows=RELAYERS)
async def show(request: PageRequest) -> Reply:
    found, days = await request.listed("list_relayers", per_page=_PER_PAGE, order="runway"), _days(request)
    names = [each["id"] for each in found["listed"]]
    runways, more = await _runways(request, names), await read_selected(request, names)
    pager: Pager = found["pager"]
    shown = {"listed": runways, "pager": pager._replace(query=pager.query | {"days": str(days)})}
    networks, most = await request.names("networks", "name"), request.at_most(_MOST_ROWS)
    return request.page("runway.html", days=days, more=more, most=most, networks=networks, **found | shown)


@get("/runway/csv")
async def show_file(request: PageRequest) -> Reply:
    """Of the first that match, with exact amounts."""
    found = await request.listed("list_relayers", per_page=_MOST_ROWS, order="runway")
    names = [each["id"] for each in found["listed"]]
    runways, more = await _runways(request, names), await read_selected(request, names)
    return csv_file("runway", [_row(each, more.get(each.relayer_id)) for each in runways])


def _row(each: Runway, seen: RelayerOverview | None) -> dict[str, object]:
    minimum, last = each.until_minimum, each.last_top_up
    return {
        "relayer_id": each.relayer_id,
        "name": each.name,
        "network": each.network,
        "address": each.address,
        "symbol": each.native_symbol,
        "balance_wei": each.balance,
        "balance_at": utc(seen and seen.saved_at),
        "min_balance_wei": each.min_balance,
        "spent_per_day_wei": each.spent_per_day,
        "seconds_until_minimum": minimum and minimum.seconds,
        "earliest_seconds": minimum and minimum.earliest_seconds,
        "latest_seconds": minimum and minimum.latest_seconds,
        "last_top_up_at": last and last.at,
        "last_top_up_wei": last and last.amount,
        "days": each.days,
        "needed_wei": each.needed,
    }


async def _runways(request: PageRequest, relayers: Sequence[str]) -> list[Runway]:
    hours, now, days = request.services.settings.runway_warn_hours, int(time.time()), _days(request)
    return await request.read(lambda store: read_runways(store, relayers, warn_hours=hours, now=now, days=days))


def _days(request: PageRequest) -> int:
    """Raises BadRequest."""
    days = whole_number(request.query.get("days") or str(DEFAULT_DAYS), _MOST_DAYS)
    if not days:
        raise BadRequest(f"days must be a whole number from 1 to {_MOST_DAYS}")
    return days


@get("/relayers/{id}/code")
async def show_code(request: PageRequest) -> Reply:
    """The QR code of the address."""
    found = await request.call("get_relayer", request.identifier)
    return picture(address_code(found.data["address"]))
