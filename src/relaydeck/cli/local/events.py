"""Events and deliveries of the home."""

from relaydeck.admin.deliveries import delivery_body, list_deliveries, read_delivery, replay_dead, replay_one
from relaydeck.admin.views import json_values
from relaydeck.cli.backend import Json
from relaydeck.cli.local.store import existing_store, local_change
from relaydeck.notifications import events
from relaydeck.notifications.notification_changes import send_test


class LocalEvents:
    def list_events(self, after: int, limit: int) -> list[Json]:
        with existing_store() as store:
            return [json_values(event.shown()) for event in events.list_events(store.database.read, after, limit)]

    def list_deliveries(self, filters: dict[str, str], after: int, limit: int) -> list[Json]:
        with existing_store() as store:
            rows = list_deliveries(store.database.read, after, limit, filters)
        return [json_values(delivery_body(row)) for row in rows]

    def find_delivery(self, event_id: str) -> Json:
        with existing_store() as store:
            return json_values(read_delivery(store.database.read, event_id))

    def replay(self, event_id: str) -> None:
        with local_change() as change:
            replay_one(change, event_id)

    def replay_dead(self) -> int:
        with local_change() as change:
            return replay_dead(change)

    def send_test(self, notification_id: str) -> Json:
        with local_change() as change:
            return json_values(send_test(change, notification_id).shown())
