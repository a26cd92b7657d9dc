"""`relaydeck event …`, and the test event of `relaydeck notification test`."""

import time
from collections.abc import Callable

from relaydeck.cli.backend import Json
from relaydeck.cli.json_shapes import Scheduled
from relaydeck.cli.output import print_change, print_fields, print_json, print_note, print_record
from relaydeck.cli.target import backend
from relaydeck.errors import OperatorError
from relaydeck.notifications.attempt_errors import describe_error, error_of
from relaydeck.quantities import counted

_POLL_SECONDS = 0.1

_EVENT_FIELDS = ("sequence", "timestamp", "type", "relayer", "id")
_DELIVERY_FIELDS = ("sequence", "id", "type", "notification_id", "state", "tries", "next_try_at", "last_error")


def show_all(query: dict[str, str], limit: int, as_json: bool) -> None:
    found = backend().events.list_events(query, limit)
    if as_json:
        print_json(found)
    else:
        print_fields([{**each, "relayer": relayer_of(each)} for each in found], _EVENT_FIELDS)


def relayer_of(event: Json) -> str:
    """The identifier of its relayer; empty: it is about none."""
    relayer = event["data"].get("relayer") or {}
    return str(relayer.get("id", ""))


def show_deliveries(query: dict[str, str], limit: int, as_json: bool) -> None:
    found = backend().events.list_deliveries(query, limit)
    if as_json:
        print_json(found)
    else:
        print_fields([{**each, "last_error": _last_error(each)} for each in found], _DELIVERY_FIELDS)


def _last_error(delivery: Json) -> str | None:
    """Of a delivery that was attempted and has not arrived."""
    status, problem = delivery["last_status"], delivery["last_problem"]
    was_attempted = status is not None or problem
    return error_of(status, problem) if was_attempted and delivery["state"] != "delivered" else None


def show(event_id: str, as_json: bool) -> None:
    delivery = backend().events.find_delivery(event_id)
    if as_json:
        print_json(delivery)
    else:
        print_record(delivery)


def replay(event_id: str, as_json: bool) -> None:
    backend().events.replay(event_id)
    print_change(Scheduled(1), as_json, f"scheduled {event_id} again; a running service delivers it")


def replay_all(as_json: bool) -> None:
    count = backend().events.replay_dead()
    done = f"scheduled {counted(count, 'dead delivery', 'dead deliveries')} again" if count else "no delivery is dead"
    print_change(Scheduled(count), as_json, done)


def test_notification(notification_id: str, timeout: float | None, as_json: bool) -> None:
    """With a `timeout`, wait so many seconds for the first attempt to deliver it."""
    events = backend().events
    event = events.send_test(notification_id)
    if timeout is None:
        if as_json:
            print_json(event)
        print_note(f"recorded test event {event['id']}; a running service delivers it")
        return
    delivery = _first_attempt(lambda: events.find_delivery(event["id"]), timeout)
    if as_json:
        print_json(delivery)
    _require_delivered(delivery, timeout)
    print_note(f"delivered test event {event['id']}")


def _first_attempt(find: Callable[[], Json], timeout: float) -> Json:
    deadline = time.monotonic() + timeout
    while (delivery := find())["tries"] == 0 and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return delivery


def _require_delivered(delivery: Json, timeout: float) -> None:
    if delivery["tries"] == 0:
        raise OperatorError(
            f"no attempt to deliver {delivery['id']} within {timeout:g} s", "Check that a service is running."
        )
    if delivery["state"] != "delivered":
        error = describe_error(delivery["last_status"], delivery["last_problem"])
        then = "The delivery was given up" if delivery["state"] == "dead" else "The service tries again"
        raise OperatorError(
            f"the first attempt to deliver {delivery['id']} failed: {error}",
            f"{then}; 'relaydeck event show {delivery['id']}' shows every attempt.",
        )
