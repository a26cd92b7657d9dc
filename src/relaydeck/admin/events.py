"""Events and their deliveries over the admin API."""

import msgspec

from relaydeck.admin import queries
from relaydeck.admin.bodies import Attempt, Delivery, DeliveryWithAttempts, Replayed
from relaydeck.admin.filters import FILTERS
from relaydeck.admin.queries import Query
from relaydeck.admin.read_pool import ReadPool
from relaydeck.admin.responses import ChangeRunner, Content, identifier_in_path, refuse_content, reply
from relaydeck.admin.routes import Methods
from relaydeck.errors import NotPossible, RecordNotFound
from relaydeck.http.paging import read_page
from relaydeck.http.pipeline import Call, Reply
from relaydeck.notifications import deliveries, events
from relaydeck.notifications.deliveries import DeliveryRow
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import ReadRows
from relaydeck.timestamps import utc_with_milliseconds


class EventOperations:
    def __init__(self, read_pool: ReadPool, changes: ChangeRunner, max_per_page: int) -> None:
        self._read_pool = read_pool
        self._changes = changes
        self._max_per_page = max_per_page

    def routes(self) -> dict[str, Methods]:
        return {
            "events": {"GET": self.list_events},
            "events/{id}": {"GET": self.find_event},
            "deliveries": {"GET": self.list_deliveries},
            "deliveries/replay": {"POST": self.replay_all},
            "deliveries/{id}": {"GET": self.find_delivery},
            "deliveries/{id}/replay": {"POST": self.replay},
        }

    async def list_events(self, call: Call) -> Reply:
        after, limit, _ = self._span(call)

        def read_events(read: ReadRows) -> Content:
            found = [event.shown() for event in events.list_events(read, after, limit)]
            return Content(found, notes=_gap(read, after))

        return reply(await self._read_pool.run(lambda store: read_events(store.database.read)))

    async def list_deliveries(self, call: Call) -> Reply:
        after, limit, query = self._span(call)
        rows = await self._read_pool.run(lambda store: list_deliveries(store.database.read, after, limit, query))
        return reply(Content([delivery_body(row) for row in rows]))

    def _span(self, call: Call) -> tuple[int, int, Query]:
        query = queries.read_query(call.query)
        page = read_page(call.query, self._max_per_page)
        return queries.whole("after", query.get("after") or "0"), page.per_page, query

    async def find_event(self, call: Call) -> Reply:
        name = identifier_in_path(call)
        event = await self._read_pool.run(lambda store: events.find_event(store.database.read, name))
        if event is None:
            raise RecordNotFound("event")
        return reply(Content(event.shown()))

    async def find_delivery(self, call: Call) -> Reply:
        name = identifier_in_path(call)
        return reply(await self._read_pool.run(lambda store: Content(read_delivery(store.database.read, name))))

    async def replay(self, call: Call) -> Reply:
        name = identifier_in_path(call)
        refuse_content(call)
        return await self._changes.run_once(
            call, "deliveries.replay", lambda context: Content(replay_one(context, name))
        )

    async def replay_all(self, call: Call) -> Reply:
        refuse_content(call)
        return await self._changes.run_once(
            call, "deliveries.replay_all", lambda context: Content(Replayed(replay_dead(context)))
        )


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


def _gap(read: ReadRows, after: int) -> tuple[str, ...]:
    oldest = events.oldest_sequence(read)
    if oldest is None or after >= oldest - 1:
        return ()
    return (f"events before {oldest} were removed at the end of their retention",)


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
