"""Events and their deliveries: the latest first, every attempt, and sending again."""

from relaydeck.console.responses import path_to, redirect
from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.errors import BadRequest, RecordNotFound
from relaydeck.http.pipeline import Reply
from relaydeck.notifications import deliveries, events

_PER_PAGE = 50
_STATES = ("pending", "delivered", "dead")
_GREATEST_DIGITS = 18


def pages(_services: PageServices) -> Pages:
    return {
        "/events": {"GET": show_events},
        "/events/{id}": {"GET": show_event},
        "/deliveries": {"GET": show_deliveries},
        "/deliveries/replay": {"POST": replay_dead},
        "/deliveries/{id}": {"GET": show_delivery},
        "/deliveries/{id}/replay": {"POST": replay},
    }


def _before(visit: Visit) -> int | None:
    given = visit.query.get("before", "")
    if given and not (given.isascii() and given.isdigit() and len(given) <= _GREATEST_DIGITS):
        raise BadRequest("before must be a whole number of at least 0")
    return int(given) if given else None


async def show_events(visit: Visit) -> Reply:
    before, relayer = _before(visit), visit.query.get("relayer_id") or None
    found = await visit.read(
        lambda store: events.list_latest(store.database.read, limit=_PER_PAGE, before=before, relayer_id=relayer)
    )
    return visit.page("events.html", events=found, more=len(found) == _PER_PAGE)


async def show_event(visit: Visit) -> Reply:
    name = visit.identifier
    event = await visit.read(lambda store: events.find_event(store.database.read, name))
    if event is None:
        raise RecordNotFound("event")
    found = await visit.admin.read("events", name)
    return visit.page("event.html", event=event, body=found.data)


async def show_deliveries(visit: Visit) -> Reply:
    before, query = _before(visit), visit.query
    state = query.get("state") or None
    if state is not None and state not in _STATES:
        raise BadRequest(f"state must be one of {', '.join(_STATES)}")
    found = await visit.read(
        lambda store: deliveries.list_latest(
            store.database.read,
            limit=_PER_PAGE,
            before=before,
            state=state,
            notification_id=query.get("notification_id") or None,
            relayer_id=query.get("relayer_id") or None,
        )
    )
    counts = await visit.read(lambda store: deliveries.count_deliveries(store.database.read))
    return visit.page("deliveries.html", deliveries=found, more=len(found) == _PER_PAGE, counts=counts, states=_STATES)


async def show_delivery(visit: Visit) -> Reply:
    found = await visit.admin.read("deliveries", visit.identifier)
    event = await visit.admin.read("events", visit.identifier)
    return visit.page("delivery.html", delivery=found.data, body=event.data)


async def replay(visit: Visit) -> Reply:
    await visit.admin.change("POST", "deliveries", visit.identifier, "replay")
    return redirect(f"{path_to('deliveries', visit.identifier)}?done=replayed")


async def replay_dead(visit: Visit) -> Reply:
    await visit.admin.change("POST", "deliveries", "replay")
    return redirect("/deliveries?done=replayed")
