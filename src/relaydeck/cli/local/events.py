"""Events and deliveries of the home."""

from relaydeck.admin.deliveries import list_deliveries, list_events, read_delivery, replay_dead, replay_one
from relaydeck.admin.views import json_values
from relaydeck.cli.backend import Json
from relaydeck.cli.local.store import existing_store, local_change
from relaydeck.notifications.notification_changes import send_test


class LocalEvents:
    def list_events(self, query: dict[str, str], limit: int) -> list[Json]:
        with existing_store() as store:
            return [json_values(each) for each in list_events(store.database.read, query, limit)]

    def list_deliveries(self, query: dict[str, str], limit: int) -> list[Json]:
        with existing_store() as store:
            return [json_values(each) for each in list_deliveries(store.database.read, query, limit)]

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
