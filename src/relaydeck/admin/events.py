"""Events, their deliveries, and the test event of a notification."""

from collections.abc import Callable
from typing import Any

import msgspec

from relaydeck.admin.handling import Content, Request, Services, changes, handles
from relaydeck.admin.views import newest_first
from relaydeck.api import operations
from relaydeck.api.list_filters import FILTERS, conditions
from relaydeck.api.records import Attempt, Delivery, DeliveryWithAttempts, Replayed
from relaydeck.errors import NoDelivery, NotPossible, RecordNotFound
from relaydeck.http.request import encode_items, read_page
from relaydeck.notifications import delivery_queries, events, notification_changes
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import ReadRows, Row
from relaydeck.timestamps import utc_with_milliseconds


@handles(operations.LIST_EVENTS)
async def list_events(services: Services, request: Request) -> Content:
    def read_events(read: ReadRows, after: int, *asked: Any, newest: bool) -> Content:
        found = events.list_events(read, after, *asked, newest=newest)
        # A scoped credential sees some numbers only: which were removed, and which are about others, is nothing to it.
        is_limited = request.sender is not None and request.sender.visible is not None
        notes = () if is_limited else _gap(read, after)
        return Content(encode_items(each.shown() for each in found), notes=notes)

    return await _listed("events", services, request, read_events)


async def _listed(collection: str, services: Services, request: Request, work: Callable[..., Content]) -> Content:
    """Both lists are read on by sequence number. `work` reads those after one, as many and under which condition."""
    query, page = request.query, read_page(request.query_string, services.settings.max_per_page)
    after, newest = int(query.get("after") or 0), newest_first(query)
    where = conditions(tuple(each for each in FILTERS[collection] if each.name != "after"), query)
    content = await services.read(lambda store: work(store.database.read, after, page.per_page, *where, newest=newest))
    return content._replace(notes=(*content.notes, *page.notes))


def _gap(read: ReadRows, after: int) -> tuple[str, ...]:
    oldest = events.oldest_sequence(read)
    if oldest is None or after >= oldest - 1:
        return ()
    return (f"events before {oldest} were removed at the end of their retention",)


@handles(operations.GET_EVENT)
async def get_event(services: Services, request: Request) -> Content:
    name = request.identifier
    event = await services.read(lambda store: events.find_event(store.database.read, name))
    if event is None:
        raise RecordNotFound("event")
    return Content(event.shown())


@changes(operations.TEST_NOTIFICATION)
def test_notification(context: ChangeContext, request: Request, _body: None) -> Content:
    return Content(notification_changes.send_test(context, request.identifier).shown())


@changes(operations.SEND_WAITING)
def send_waiting(context: ChangeContext, request: Request, _body: None) -> Content:
    name = request.identifier
    if not context.transaction.present("notifications", "id", [name]):
        raise RecordNotFound("notification")
    count = delivery_queries.send_waiting(context.transaction, name)
    if count:
        context.performed("notification.resent", name, {"count": count})
    return Content(Replayed(count), changed=count > 0)


@handles(operations.LIST_DELIVERIES)
async def list_deliveries(services: Services, request: Request) -> Content:
    def read_deliveries(read: ReadRows, *asked: Any, newest: bool) -> Content:
        return Content(encode_items(map(_delivery, delivery_queries.list_deliveries(read, *asked, newest=newest))))

    return await _listed("deliveries", services, request, read_deliveries)


@handles(operations.GET_DELIVERY)
async def get_delivery(services: Services, request: Request) -> Content:
    name = request.identifier
    return Content(await services.read(lambda store: _read_delivery(store.database.read, name)))


@changes(operations.REPLAY_DELIVERY)
def replay_delivery(context: ChangeContext, request: Request, _body: None) -> Content:
    name = request.identifier
    if delivery_queries.find_delivery(context.transaction.all, name) is None:
        raise RecordNotFound("delivery")
    if not delivery_queries.replay(context.transaction, name):
        raise NotPossible("Delivery is already due: it is sent at once, or after an earlier event of its relayer")
    context.performed("delivery.replayed", name)
    return Content(_read_delivery(context.transaction.all, name))


@changes(operations.REPLAY_DEAD)
def replay_dead(context: ChangeContext, request: Request, _body: None) -> Content:
    chosen = {name: value for name, value in request.query.items() if value}
    count = delivery_queries.replay_all_dead(context.transaction, *conditions(operations.REPLAY_DEAD.query, chosen))
    if count:
        context.performed("deliveries.replayed", "", {"count": count, **chosen})
    return Content(Replayed(count), changed=count > 0)


def _read_delivery(read: ReadRows, name: str) -> DeliveryWithAttempts:
    row = delivery_queries.find_delivery(read, name)
    if row is None:
        raise RecordNotFound("delivery") if events.find_event(read, name) is None else NoDelivery
    found = delivery_queries.list_attempts(read, name)
    attempts = tuple(Attempt(**each._asdict() | {"at": utc_with_milliseconds(each.at)}) for each in found)
    return DeliveryWithAttempts(**msgspec.structs.asdict(_delivery(row)), attempts=attempts)


def _delivery(row: Row) -> Delivery:
    moments = {name: utc_with_milliseconds(getattr(row, name)) for name in ("created_at", "next_try_at", "finished_at")}
    return Delivery(**row._asdict() | moments)
