"""Deliveries as the admin API and the commands show and replay them."""

import msgspec

from relaydeck.admin import queries
from relaydeck.admin.bodies import Attempt, Delivery, DeliveryWithAttempts
from relaydeck.admin.filters import FILTERS
from relaydeck.admin.operation import Query
from relaydeck.errors import NotPossible, RecordNotFound
from relaydeck.notifications import deliveries
from relaydeck.notifications.deliveries import DeliveryRow
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import ReadRows
from relaydeck.timestamps import utc_with_milliseconds


def list_deliveries(read: ReadRows, after: int, limit: int, query: Query) -> list[DeliveryRow]:
    """Raises BadRequest for a value that a filter refuses."""
    filters = tuple(each for each in FILTERS["deliveries"] if each.name != "after")
    return deliveries.list_deliveries(read, after, limit, *queries.conditions(filters, query))


def replay_one(context: ChangeContext, name: str) -> DeliveryWithAttempts:
    """Raises RecordNotFound, or NotPossible while the delivery is pending."""
    if deliveries.find_delivery(context.transaction.all, name) is None:
        raise RecordNotFound("delivery")
    if not deliveries.replay(context.transaction, name):
        raise NotPossible("Delivery is still pending")
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
        raise RecordNotFound("delivery")
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
