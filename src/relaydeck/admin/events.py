"""Events, their deliveries and the audit log over the admin API."""

from typing import Any

from relaydeck.admin import queries
from relaydeck.admin.commands import Result
from relaydeck.admin.queries import Query, Read
from relaydeck.admin.read_pool import ReadPool
from relaydeck.admin.resources import Lists
from relaydeck.admin.responses import Writing, answer, named, refuse_content
from relaydeck.admin.routes import Methods
from relaydeck.errors import BadRequest, NotPossible, RecordNotFound
from relaydeck.http.paging import read_page
from relaydeck.http.pipeline import Call, Reply
from relaydeck.notifications import deliveries, events
from relaydeck.notifications.deliveries import DeliveryRow
from relaydeck.store.change_context import ChangeContext
from relaydeck.timestamps import utc_with_milliseconds

STATES = ("pending", "delivered", "dead")
_FILTERS = ("state", "notification_id", "relayer_id")


class EventOperations:
    def __init__(self, read_pool: ReadPool, writing: Writing, lists: Lists, max_per_page: int) -> None:
        self._read_pool = read_pool
        self._writing = writing
        self._lists = lists
        self._max_per_page = max_per_page

    def routes(self) -> dict[str, Methods]:
        return {
            "events": {"GET": self.list_events},
            "events/{id}": {"GET": self.find_event},
            "deliveries": {"GET": self.list_deliveries},
            "deliveries/replay": {"POST": self.replay_all},
            "deliveries/{id}": {"GET": self.find_delivery},
            "deliveries/{id}/replay": {"POST": self.replay},
            "audit": {"GET": self.list_audit},
        }

    async def list_events(self, call: Call) -> Reply:
        after, limit, _ = self._span(call)

        def look(read: Read) -> Result:
            found = [event.shown() for event in events.list_events(read, after, limit)]
            return Result(found, notes=_gap(read, after))

        return answer(await self._read_pool.run(lambda store: look(store.database.read)))

    async def list_deliveries(self, call: Call) -> Reply:
        after, limit, query = self._span(call)
        narrowed = {name: query[name] for name in _FILTERS if query.get(name)}
        if narrowed.get("state", STATES[0]) not in STATES:
            raise BadRequest(f"state must be one of {', '.join(STATES)}")
        rows = await self._read_pool.run(
            lambda store: deliveries.list_deliveries(store.database.read, after, limit, **narrowed)
        )
        return answer(Result([delivery_view(row) for row in rows]))

    def _span(self, call: Call) -> tuple[int, int, Query]:
        query = queries.read_query(call.query)
        page = read_page(call.query, self._max_per_page)
        return queries.whole("after", query.get("after") or "0"), page.per_page, query

    async def find_event(self, call: Call) -> Reply:
        name = named(call)
        event = await self._read_pool.run(lambda store: events.find_event(store.database.read, name))
        if event is None:
            raise RecordNotFound("event")
        return answer(Result(event.shown()))

    async def find_delivery(self, call: Call) -> Reply:
        name = named(call)
        return answer(await self._read_pool.run(lambda store: Result(whole_delivery(store.database.read, name))))

    async def replay(self, call: Call) -> Reply:
        name = named(call)
        refuse_content(call)
        return await self._writing.run_once(
            call, "deliveries.replay", lambda context: Result(replay_one(context, name))
        )

    async def replay_all(self, call: Call) -> Reply:
        refuse_content(call)
        return await self._writing.run_once(
            call, "deliveries.replay_all", lambda context: Result({"replayed": replay_dead(context)})
        )

    async def list_audit(self, call: Call) -> Reply:
        return await self._lists.give(call, queries.AUDIT)


def replay_one(context: ChangeContext, name: str) -> dict[str, Any]:
    """Raises RecordNotFound, or NotPossible while it is still on its way."""
    if deliveries.find_delivery(context.transaction.all, name) is None:
        raise RecordNotFound("delivery")
    if not deliveries.replay(context.transaction, name):
        raise NotPossible("Delivery is still on its way")
    context.did("delivery.replayed", name)
    return whole_delivery(context.transaction.all, name)


def replay_dead(context: ChangeContext) -> int:
    count = deliveries.replay_all_dead(context.transaction)
    if count:
        context.did("deliveries.replayed", "", {"count": count})
    return count


def _gap(read: Read, after: int) -> tuple[str, ...]:
    oldest = events.oldest_sequence(read)
    if oldest is None or after >= oldest - 1:
        return ()
    return (f"events before {oldest} were removed after their time",)


def whole_delivery(read: Read, name: str) -> dict[str, Any]:
    row = deliveries.find_delivery(read, name)
    if row is None:
        raise RecordNotFound("delivery")
    attempts = [
        {
            "at": utc_with_milliseconds(each.started_at),
            "duration_ms": each.duration,
            "status": each.status,
            "problem": each.problem or None,
            "answer": each.answer,
        }
        for each in deliveries.list_attempts(read, name)
    ]
    return delivery_view(row) | {"attempts": attempts}


def delivery_view(row: DeliveryRow) -> dict[str, Any]:
    created = row.created_at * 1000
    return {
        "id": row.id,
        "sequence": row.sequence,
        "type": row.kind,
        "notification_id": row.notification_id,
        "relayer_id": row.relayer_id,
        "state": row.state,
        "tries": row.tries,
        "created_at": utc_with_milliseconds(created),
        "next_try_at": utc_with_milliseconds(created if row.next_try_at == 0 else row.next_try_at),
        "finished_at": utc_with_milliseconds(row.finished_at),
        "last_status": row.last_status,
        "last_problem": row.last_problem or None,
    }
