"""Events and their deliveries: the latest first, every attempt, and sending again."""

from urllib.parse import urlencode

from relaydeck.api.list_filters import conditions
from relaydeck.api.operations import REPLAY_DEAD
from relaydeck.console.admin_calls import Json
from relaydeck.console.page_request import PageRequest, act, get, post
from relaydeck.console.rendering import redirect
from relaydeck.console.request import whole_number
from relaydeck.errors import BadRequest, RecordNotFound
from relaydeck.http.pipeline import Reply
from relaydeck.notifications import delivery_queries, events

_PER_PAGE = 50
_STATES = ("pending", "delivered", "dead")

act("replay_delivery", done="replayed")
_CHOSEN = tuple(each.name for each in REPLAY_DEAD.query)


@get("/events", shows=("events",))
async def show_events(request: PageRequest) -> Reply:
    before, relayer = whole_number(request.query.get("before") or "0"), request.query.get("relayer_id") or None
    if before is None:
        raise BadRequest("before must be a whole number of at least 0")
    found = await request.read(
        lambda store: events.list_latest(store.database.read, limit=_PER_PAGE, before=before, relayer_id=relayer)
    )
    active = {"relayer_id": relayer} if relayer else {}
    return request.page("events.html", events=found, more=len(found) == _PER_PAGE, active=active)


@get("/events/{id}", shows=("events",))
async def show_event(request: PageRequest) -> Reply:
    name = request.identifier
    event = await request.read(lambda store: events.find_event(store.database.read, name))
    if event is None:
        raise RecordNotFound("event")
    found = await request.call("get_event", name)
    return request.page("event.html", event=event, body=found.data)


@get("/deliveries", shows=("deliveries",))
async def show_deliveries(request: PageRequest) -> Reply:
    filters = ("before", "state", "notification_id", "relayer_id")
    query: Json = {name: request.query.get(name, "") for name in filters}
    found = (await request.call("list_deliveries", **query, order="newest", per_page=str(_PER_PAGE))).data
    chosen, dead = await _dead(request)
    more = len(found) == _PER_PAGE
    active = {name: value for name, value in query.items() if value and name != "before"}
    values: Json = {"deliveries": found, "more": more, "chosen": chosen, "dead": dead, "states": _STATES}
    return request.page("deliveries.html", active=active, **values)


async def _dead(request: PageRequest) -> tuple[Json, str]:
    """The filters of the request that choose dead deliveries, and how many they choose; empty: none."""
    chosen: Json = {name: request.query[name] for name in _CHOSEN if request.query.get(name)}
    where = conditions(REPLAY_DEAD.query, chosen)
    count = await request.read(lambda store: delivery_queries.count_replayable(store.database.read, *where))
    limit = delivery_queries.COUNT_LIMIT
    return chosen, f"{limit:,} or more" if count >= limit else str(count or "")


@get("/deliveries/replay")
async def ask_to_replay(request: PageRequest) -> Reply:
    chosen, count = await _dead(request)
    return request.page("deliveries_confirm.html", chosen=chosen, count=count)


@post("/deliveries/replay", "replay_dead")
async def replay(request: PageRequest) -> Reply:
    chosen: Json = {name: request.form[name] for name in _CHOSEN if request.form.get(name)}
    await request.call("replay_dead", **chosen)
    return redirect(f"/deliveries?{urlencode({**chosen, 'done': 'replayed'})}")


@get("/deliveries/{id}", shows=("deliveries",))
async def show_delivery(request: PageRequest) -> Reply:
    found = await request.call("get_delivery", request.identifier)
    event = await request.call("get_event", request.identifier)
    return request.page("delivery.html", delivery=found.data, body=event.data)
