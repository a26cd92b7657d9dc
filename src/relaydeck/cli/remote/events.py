"""Events and deliveries of a server."""

from typing import Any

from relaydeck.cli.backend import Json
from relaydeck.cli.remote.connection import Connection
from relaydeck.client.models import Delivery, Event, Replayed

_PAGE = 1000


class RemoteEvents:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list_events(self, query: dict[str, str], limit: int) -> list[Json]:
        return self._listed(Event, "events", query, limit)

    def list_deliveries(self, query: dict[str, str], limit: int) -> list[Json]:
        return self._listed(Delivery, "deliveries", query, limit)

    def _listed(self, kind: Any, collection: str, query: dict[str, str], limit: int) -> list[Json]:
        found: list[Json] = []
        end = "before" if query.get("order") == "newest" else "after"
        while len(found) < limit:
            size = min(limit - len(found), _PAGE)
            more = self._connection.get(list[kind], collection, **query, per_page=size).data
            if not more:
                break
            found += more
            query = query | {end: str(found[-1]["sequence"])}
        return found

    def find_delivery(self, event_id: str) -> Json:
        found: Json = self._connection.get(Delivery, "deliveries", event_id).data
        return found

    def replay(self, event_id: str) -> None:
        self._connection.request(Delivery, "POST", "deliveries", event_id, "replay")

    def replay_dead(self) -> int:
        count: int = self._connection.request(Replayed, "POST", "deliveries", "replay").data["replayed"]
        return count

    def send_test(self, notification_id: str) -> Json:
        event: Json = self._connection.request(Event, "POST", "notifications", notification_id, "test").data
        return event
