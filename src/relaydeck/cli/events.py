"""`relaydeck event …`, and the test event of `relaydeck notification test`."""

from typing import Any

from relaydeck.admin.events import delivery_body, list_deliveries, read_delivery, replay_dead, replay_one
from relaydeck.admin.views import json_values
from relaydeck.cli.local.store import existing_store, local_change
from relaydeck.cli.output import counted, print_fields, print_json, print_note, print_record
from relaydeck.notifications import events
from relaydeck.notifications.notification_changes import send_test

_EVENT_FIELDS = ("sequence", "timestamp", "type", "id")
_DELIVERY_FIELDS = ("sequence", "id", "type", "notification_id", "state", "tries", "next_try_at", "last_problem")


def show_all(after: int, limit: int, as_json: bool) -> None:
    with existing_store() as store:
        views = [json_values(event.shown()) for event in events.list_events(store.database.read, after, limit)]
    _print(views, _EVENT_FIELDS, as_json)


def show_deliveries(filters: dict[str, str], after: int, limit: int, as_json: bool) -> None:
    with existing_store() as store:
        rows = list_deliveries(store.database.read, after, limit, filters)
    _print([json_values(delivery_body(row)) for row in rows], _DELIVERY_FIELDS, as_json)


def show(event_id: str, as_json: bool) -> None:
    with existing_store() as store:
        delivery = json_values(read_delivery(store.database.read, event_id))
    if as_json:
        print_json(delivery)
    else:
        print_record(delivery)


def replay(event_id: str) -> None:
    with local_change() as change:
        replay_one(change, event_id)
    print_note(f"scheduled {event_id} again; a running service delivers it")


def replay_all() -> None:
    with local_change() as change:
        count = replay_dead(change)
    print_note(f"scheduled {counted(count, 'dead delivery', 'dead deliveries')} again")


def test_notification(notification_id: str, as_json: bool) -> None:
    with local_change() as change:
        event = send_test(change, notification_id)
    if as_json:
        print_json(event.shown())
    print_note(f"recorded test event {event.id}; a running service delivers it")


def _print(views: list[dict[str, Any]], names: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        print_json(views)
    else:
        print_fields(views, names)
