"""Events and deliveries of a server."""

from relaydeck.cli.backend import Json
from relaydeck.cli.remote.connection import Connection

_PAGE = 1000


class RemoteEvents:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list_events(self, after: int, limit: int) -> list[Json]:
        return self._listed("events", {}, after, limit)

    def list_deliveries(self, filters: dict[str, str], after: int, limit: int) -> list[Json]:
        return self._listed("deliveries", filters, after, limit)

    def _listed(self, collection: str, filters: dict[str, str], after: int, limit: int) -> list[Json]:
        found: list[Json] = []
        while len(found) < limit:
            size = min(limit - len(found), _PAGE)
            more = self._connection.get(collection, **filters, after=after, per_page=size).data
            if not more:
                break
            found += more
            after = found[-1]["sequence"]
        return found

    def find_delivery(self, event_id: str) -> Json:
        found: Json = self._connection.get("deliveries", event_id).data
        return found

    def replay(self, event_id: str) -> None:
        self._connection.request("POST", "deliveries", event_id, "replay")

    def replay_dead(self) -> int:
        count: int = self._connection.request("POST", "deliveries", "replay").data["replayed"]
        return count

    def send_test(self, notification_id: str) -> Json:
        event: Json = self._connection.request("POST", "notifications", notification_id, "test").data
        return event
