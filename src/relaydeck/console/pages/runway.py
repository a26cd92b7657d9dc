"""Runway: what runs out first, what to send where, and the list for whoever sends it."""

import time
from collections.abc import Sequence

from relaydeck.console.formats import address_code
from relaydeck.console.page_request import Pager, PageRequest, get
from relaydeck.console.rendering import csv_file, picture
from relaydeck.errors import BadRequest
from relaydeck.http.pipeline import Reply
from relaydeck.relayers.runway import DEFAULT_DAYS, Runway, read_runways
from relaydeck.store.open_store import Store

_PER_PAGE = 25  # a forecast reads the history of a week
_MOST_ROWS = 200  # of a file
_MOST_DAYS = 3650


@get("/runway")
async def show(request: PageRequest) -> Reply:
    found = await request.listed("list_relayers", per_page=_PER_PAGE, order="runway")
    runways = await _runways(request, [each["id"] for each in found["listed"]])
    networks = await request.read(network_names)
    pager: Pager = found["pager"]
    pager = pager._replace(query=pager.query | {"days": str(_days(request))})
    return request.page(
        "runway.html",
        runways=runways,
        days=_days(request),
        most=request.at_most(_MOST_ROWS),
        networks=networks,
        pager=pager,
    )


@get("/runway/csv")
async def show_file(request: PageRequest) -> Reply:
    """Of the first that match, with exact amounts."""
    found = await request.listed("list_relayers", per_page=_MOST_ROWS, order="runway")
    runways = await _runways(request, [each["id"] for each in found["listed"]])
    return csv_file("runway", [_row(each) for each in runways])


def _row(each: Runway) -> dict[str, object]:
    minimum, last = each.until_minimum, each.last_top_up
    return {
        "relayer_id": each.relayer_id,
        "name": each.name,
        "network": each.network,
        "address": each.address,
        "symbol": each.native_symbol,
        "balance_wei": each.balance,
        "balance_at": each.balance_at,
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
    given = request.query.get("days") or str(DEFAULT_DAYS)
    if not (given.isascii() and given.isdigit() and 1 <= int(given[:9]) <= _MOST_DAYS):
        raise BadRequest(f"days must be a whole number from 1 to {_MOST_DAYS}")
    return int(given)


def network_names(store: Store, most: int = 200) -> list[str]:
    """The names alone: to list the networks would open their sealed URLs."""
    return [
        row.name for row in store.database.read("SELECT name FROM networks ORDER BY seq LIMIT :most", {"most": most})
    ]


@get("/relayers/{id}/code")
async def show_code(request: PageRequest) -> Reply:
    """The QR code of the address."""
    found = await request.call("get_relayer", request.identifier)
    return picture(address_code(found.data["address"]))
