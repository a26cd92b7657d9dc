"""Events and their deliveries over the admin API."""

from relaydeck.admin.bodies import Replayed
from relaydeck.admin.deliveries import after, list_deliveries, list_events, read_delivery, replay_dead, replay_one
from relaydeck.admin.operation import Content, Operations, RepeatableChange, Request
from relaydeck.admin.store_thread import StoreThread
from relaydeck.errors import RecordNotFound
from relaydeck.http.paging import Page, encode_items, read_page
from relaydeck.notifications import events
from relaydeck.store.database import ReadRows


class EventOperations:
    def __init__(self, reads: StoreThread, max_per_page: int) -> None:
        self._reads = reads
        self._max_per_page = max_per_page

    def operations(self) -> Operations:
        return {
            "events": {"GET": self.list_events},
            "events/{id}": {"GET": self.find_event},
            "deliveries": {"GET": self.list_deliveries},
            "deliveries/replay": {"POST": self.replay_all},
            "deliveries/{id}": {"GET": self.find_delivery},
            "deliveries/{id}/replay": {"POST": self.replay},
        }

    async def list_events(self, request: Request) -> Content:
        query, page = request.read_query(), self._page(request)

        def read_events(read: ReadRows) -> Content:
            items = encode_items(list_events(read, query, page.per_page))
            return Content(items, notes=(*_gap(read, after(query)), *page.notes))

        return await self._reads.run(lambda store: read_events(store.database.read))

    async def list_deliveries(self, request: Request) -> Content:
        query, page = request.read_query(), self._page(request)
        found = await self._reads.run(
            lambda store: encode_items(list_deliveries(store.database.read, query, page.per_page))
        )
        return Content(found, notes=page.notes)

    def _page(self, request: Request) -> Page:
        return read_page(request.query_string, self._max_per_page)

    async def find_event(self, request: Request) -> Content:
        name = request.identifier
        event = await self._reads.run(lambda store: events.find_event(store.database.read, name))
        if event is None:
            raise RecordNotFound("event")
        return Content(event.shown())

    async def find_delivery(self, request: Request) -> Content:
        name = request.identifier
        return Content(await self._reads.run(lambda store: read_delivery(store.database.read, name)))

    async def replay(self, request: Request) -> RepeatableChange:
        name = request.identifier
        request.refuse_content()
        return RepeatableChange("deliveries.replay", lambda context: Content(replay_one(context, name)))

    async def replay_all(self, request: Request) -> RepeatableChange:
        request.refuse_content()
        return RepeatableChange("deliveries.replay_all", lambda context: Content(Replayed(replay_dead(context))))


def _gap(read: ReadRows, after: int) -> tuple[str, ...]:
    oldest = events.oldest_sequence(read)
    if oldest is None or after >= oldest - 1:
        return ()
    return (f"events before {oldest} were removed at the end of their retention",)
