"""`relaydeck event …`, and the test event of `relaydeck notification test`."""

from typing import Any

from relaydeck.cli.output import counted, print_fields, print_json, print_note, print_record
from relaydeck.cli.target import backend

_EVENT_FIELDS = ("sequence", "timestamp", "type", "id")
_DELIVERY_FIELDS = ("sequence", "id", "type", "notification_id", "state", "tries", "next_try_at", "last_problem")


def show_all(after: int, limit: int, as_json: bool) -> None:
    _print(backend().events.list_events(after, limit), _EVENT_FIELDS, as_json)


def show_deliveries(filters: dict[str, str], after: int, limit: int, as_json: bool) -> None:
    _print(backend().events.list_deliveries(filters, after, limit), _DELIVERY_FIELDS, as_json)


def show(event_id: str, as_json: bool) -> None:
    delivery = backend().events.find_delivery(event_id)
    if as_json:
        print_json(delivery)
    else:
        print_record(delivery)


def replay(event_id: str) -> None:
    backend().events.replay(event_id)
    print_note(f"scheduled {event_id} again; a running service delivers it")


def replay_all() -> None:
    count = backend().events.replay_dead()
    print_note(f"scheduled {counted(count, 'dead delivery', 'dead deliveries')} again")


def test_notification(notification_id: str, as_json: bool) -> None:
    event = backend().events.send_test(notification_id)
    if as_json:
        print_json(event)
    print_note(f"recorded test event {event['id']}; a running service delivers it")


def _print(views: list[dict[str, Any]], names: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        print_json(views)
    else:
        print_fields(views, names)
