"""The balance history of a relayer, how long its balance lasts, and which relayers run out first."""

import time
from typing import NamedTuple

from relaydeck.admin.operation import Content, Operations, Query, Request
from relaydeck.admin.queries import whole
from relaydeck.admin.store_thread import StoreThread
from relaydeck.errors import BadRequest
from relaydeck.quantities import parse_span, span_problem
from relaydeck.relayers.balance_history import Range, choose_range, read_history
from relaydeck.relayers.runway_report import FirstRunways, read_first, read_runway
from relaydeck.settings import Settings
from relaydeck.timestamps import parse_utc


class Parameter(NamedTuple):
    """A query parameter, for the OpenAPI document."""

    name: str
    description: str
    example: str


BALANCE_PARAMETERS = (
    Parameter("from", "The first moment, as in RFC 3339. Default: a day before `to`.", "2026-03-01T00:00:00Z"),
    Parameter("to", "The last moment, as in RFC 3339. Default: now.", "2026-03-02T00:00:00Z"),
    Parameter(
        "step",
        "The time between two points: 90s, 5m, 1h, 1d. Default: a minute, ten minutes, an hour or a day, the "
        "shortest that makes at most 300 steps.",
        "10m",
    ),
)
FIRST_PARAMETERS = (Parameter("first", "How many relayers to return, 1 to 1000. Default: 20.", "20"),)
_FIRST, _MOST_FIRST = 20, 1000


class BalanceOperations:
    def __init__(self, reads: StoreThread, settings: Settings) -> None:
        self._reads = reads
        self._warn_hours = settings.runway_warn_hours

    def operations(self) -> Operations:
        return {
            "relayers/{id}/balances": {"GET": self.show},
            "relayers/{id}/runway": {"GET": self.show_runway},
            "runways": {"GET": self.list_first},
        }

    async def show(self, request: Request) -> Content:
        name = request.identifier
        shown = requested_range(request.read_query(), int(time.time()))
        history = await self._reads.run(lambda store: read_history(store.database.read, name, shown))
        return Content(history)

    async def show_runway(self, request: Request) -> Content:
        name, now, hours = request.identifier, int(time.time()), self._warn_hours
        runway = await self._reads.run(lambda store: read_runway(store.database.read, name, warn_hours=hours, now=now))
        return Content(runway)

    async def list_first(self, request: Request) -> Content:
        count, now, hours = _first(request.read_query()), int(time.time()), self._warn_hours
        found = await self._reads.run(lambda store: read_first(store.database.read, count, warn_hours=hours, now=now))
        return Content(FirstRunways(runways=tuple(found)))


def _first(query: Query) -> int:
    if not (text := query.get("first")):
        return _FIRST
    count = whole("first", text)
    if not 1 <= count <= _MOST_FIRST:
        raise BadRequest(f"first must be a whole number from 1 to {_MOST_FIRST}")
    return count


def requested_range(query: Query, now: int) -> Range:
    """Raises BadRequest."""
    return choose_range(_moment(query, "from"), _moment(query, "to"), _step(query), now)


def _moment(query: Query, name: str) -> int | None:
    if not (text := query.get(name)):
        return None
    moment = parse_utc(text)
    if moment is None:
        raise BadRequest(f"{name} must be a moment such as 2026-03-01T00:00:00Z")
    return moment


def _step(query: Query) -> int | None:
    if not (text := query.get("step")):
        return None
    if problem := span_problem(text):
        raise BadRequest(f"step: {problem}")
    return parse_span(text)
