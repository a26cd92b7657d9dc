"""Events and deliveries, as the admin API and the commands list, show and replay them."""

from typing import Any

import msgspec

from relaydeck.admin import queries
from relaydeck.admin.bodies import Attempt, Delivery, DeliveryWithAttempts
from relaydeck.admin.filters import FILTERS
from relaydeck.admin.operation import Query
from relaydeck.admin.queries import newest_first
from relaydeck.errors import NoDelivery, NotPossible, RecordNotFound
from relaydeck.notifications import deliveries, events
from relaydeck.notifications.deliveries import DeliveryRow
from relaydeck.notifications.model import EventBody
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import ReadRows
from relaydeck.timestamps import utc_with_milliseconds


def list_events(read: ReadRows, query: Query, limit: int) -> list[EventBody]:
    """Raises BadRequest for a value that a filter refuses."""
    found = events.list_events(read, after(query), limit, *_conditions("events", query), newest=newest_first(query))
    return [event.shown() for event in found]


def list_deliveries(read: ReadRows, query: Query, limit: int) -> list[Delivery]:
    """Raises BadRequest for a value that a filter refuses."""
    conditions = _conditions("deliveries", query)
    found = deliveries.list_deliveries(read, after(query), limit, *conditions, newest=newest_first(query))
    return [delivery_body(row) for row in found]


def after(query: Query) -> int:
    """The sequence number that a list starts after."""
    return queries.whole("after", query.get("after") or "0")


def _conditions(collection: str, query: Query) -> tuple[str, dict[str, Any]]:
    return queries.conditions(tuple(each for each in FILTERS[collection] if each.name != "after"), query)


def replay_one(context: ChangeContext, name: str) -> DeliveryWithAttempts:
    """Raises RecordNotFound, or NotPossible if the delivery is already due."""
    if deliveries.find_delivery(context.transaction.all, name) is None:
        raise RecordNotFound("delivery")
    if not deliveries.replay(context.transaction, name):
        raise NotPossible("Delivery is already due: it is sent at once, or after an earlier event of its relayer")
    context.performed("delivery.replayed", name)
    return read_delivery(context.transaction.all, name)


def replay_dead(context: ChangeContext) -> int:
    count = deliveries.replay_all_dead(context.transaction)
    if count:
        context.performed("deliveries.replayed", "", {"count": count})
    return count


def read_delivery(read: ReadRows, name: str) -> DeliveryWithAttempts:
    """Raises RecordNotFound."""
    row = deliveries.find_delivery(read, name)
    if row is None:
        raise RecordNotFound("delivery") if events.find_event(read, name) is None else NoDelivery
    attempts = tuple(
        Attempt(
            at=utc_with_milliseconds(each.started_at),
            duration_ms=each.duration,
            status=each.status,
            problem=each.problem or None,
            answer=each.answer,
        )
        for each in deliveries.list_attempts(read, name)
    )
    return DeliveryWithAttempts(**msgspec.structs.asdict(delivery_body(row)), attempts=attempts)


def delivery_body(row: DeliveryRow) -> Delivery:
    created = row.created_at * 1000
    return Delivery(
        id=row.id,
        sequence=row.sequence,
        type=row.kind,
        notification_id=row.notification_id,
        relayer_id=row.relayer_id,
        state=row.state,  # type: ignore[arg-type]  # the database checks it
        tries=row.tries,
        created_at=utc_with_milliseconds(created),
        next_try_at=utc_with_milliseconds(created if row.next_try_at == 0 else row.next_try_at),
        finished_at=utc_with_milliseconds(row.finished_at),
        last_status=row.last_status,
        last_problem=row.last_problem or None,
    )
