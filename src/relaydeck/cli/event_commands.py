"""`relaydeck event …` and `relaydeck notification …`."""

import signal
import sys
import time
from collections.abc import Iterator
from itertools import chain
from types import FrameType
from typing import Annotated

import click

from relaydeck.api import operations
from relaydeck.cli.operation_commands import (
    completed_records,
    derived_command,
    identity,
    limit,
    list_command,
    operation_group,
)
from relaydeck.cli.options import anywhere, as_json
from relaydeck.cli.output import (
    Shape,
    about,
    columns,
    print_change,
    print_json,
    print_json_line,
    print_line,
    print_note,
)
from relaydeck.cli.record_commands import record_group
from relaydeck.cli.reply import Json
from relaydeck.cli.target import list_records, target
from relaydeck.errors import OperatorError
from relaydeck.notifications.delivery_queries import describe_error, error_of
from relaydeck.notifications.model import EventBody
from relaydeck.quantities import counted

_PAGE = 1000
_PAUSE_SECONDS = 0.5
_POLL_SECONDS = 0.1
_INTERRUPTED = 130  # what a shell reports for a program that SIGINT ended


class Scheduled(Shape, frozen=True):
    scheduled: Annotated[int, about("How many deliveries were scheduled again.")]


notification = record_group(
    "notification", {"id": "id", "url": "url", "signed": lambda view: "yes" if view["has_signing_key"] else "no"}
)


@notification.command(epilog="Example:  relaydeck notification test pager --wait")
@identity(operations.TEST_NOTIFICATION)
@click.option("--wait", is_flag=True, help="Wait for the first attempt, and exit with 1 unless it succeeds.")
@click.option("--timeout", type=click.FloatRange(1), default=30, show_default=True, help="Longest wait, in seconds.")
@as_json(EventBody, remark="; with `--wait`, `DeliveryWithAttempts`")
@anywhere
def test(identifier: str, wait: bool, timeout: float, as_json: bool) -> None:
    """Send a test event to the notification with this ID. A running service delivers it."""
    event_id = (found := target().call(operations.TEST_NOTIFICATION, identifier).data)["id"]
    done = f"recorded test event {event_id}; a running service delivers it"
    if wait:
        found, done = _first_attempt(event_id, timeout), f"delivered test event {event_id}"
    if as_json:
        print_json(found)
    if wait:
        _require_delivered(found, timeout)
    print_note(done)


def _first_attempt(event_id: str, timeout: float) -> Json:
    deadline = time.monotonic() + timeout
    while True:
        delivery: Json = target().call(operations.GET_DELIVERY, event_id).data
        if delivery["tries"] > 0 or time.monotonic() >= deadline:
            return delivery
        time.sleep(_POLL_SECONDS)


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


def _last_error(delivery: Json) -> str | None:
    status, problem = delivery["last_status"], delivery["last_problem"]
    was_attempted = status is not None or problem
    return error_of(status, problem) if was_attempted and delivery["state"] != "delivered" else None


def _relayer_of(event: Json) -> str:
    """The identifier of its relayer; empty: it is about none."""
    relayer = event["data"].get("relayer") or {}
    return str(relayer.get("id", ""))


event = operation_group("event")
event.add_command(derived_command(operations.GET_DELIVERY, "show", "Show the delivery of an event with every attempt."))
event.add_command(
    list_command(
        operations.LIST_EVENTS,
        "list",
        "List events, newest first.",
        {**columns("sequence", "timestamp", "type"), "relayer": _relayer_of, "id": "id"},
        most=100,
        epilog="Example:  relaydeck event list --relayer-id sepolia-1 --limit 5",
    )
)
_DELIVERY = ("sequence", "id", "type", "notification_id", "state", "tries", "next_try_at", "waits_for")
event.add_command(
    list_command(
        operations.LIST_DELIVERIES,
        "deliveries",
        "List deliveries, newest first. One is dead after ten failed attempts, or if the receiver answered 410.",
        {**columns(*_DELIVERY), "last_error": _last_error},
        most=100,
    )
)


@event.command("replay")
@click.argument("event_id", metavar="[ID]", default="", shell_complete=completed_records("deliveries"))
@click.option("--all-dead", is_flag=True, help="Every delivery that was given up.")
@as_json(Scheduled)
@anywhere
def event_replay(event_id: str, all_dead: bool, as_json: bool) -> None:
    """Deliver an event again, at once. With --all-dead: every event whose delivery was given up."""
    if bool(event_id) == all_dead:
        raise click.UsageError("give either an ID or --all-dead")
    if all_dead:
        count = target().call(operations.REPLAY_DEAD).data["replayed"]
        dead = counted(count, "dead delivery", "dead deliveries")
        print_change(Scheduled(count), as_json, f"scheduled {dead} again" if count else "no delivery is dead")
        return
    target().call(operations.REPLAY_DELIVERY, event_id)
    print_change(Scheduled(1), as_json, f"scheduled {event_id} again; a running service delivers it")


@event.command("tail", epilog="Example:  relaydeck event tail --follow --json | jq .type")
@click.option("--follow", "-f", is_flag=True, help="Also print new events as they come, until Ctrl-C.")
@limit(10)
@as_json(EventBody, remark=", one on each line", text="Print one JSON object on each line, for scripts.")
@anywhere
def event_tail(follow: bool, limit: int, as_json: bool) -> None:
    """Print the latest events, oldest first."""
    latest = list_records(operations.LIST_EVENTS, {"order": "newest"}, limit)[0][::-1]
    interrupt = Interrupt() if follow else None
    try:
        for each in chain(latest, _following(latest, interrupt) if interrupt else ()):
            (print_json_line if as_json else _print)(each)
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    if interrupt:
        sys.exit(_INTERRUPTED)


class Interrupt:
    """Whether SIGINT arrived. The second one raises KeyboardInterrupt, as usual.

    An exception that a signal raises can be lost, in a finalizer for instance; a flag cannot.
    """

    def __init__(self) -> None:
        self.arrived = False
        signal.signal(signal.SIGINT, self._arrive)

    def _arrive(self, _signal: int, _frame: FrameType | None) -> None:
        self.arrived = True
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _following(latest: list[Json], interrupt: Interrupt) -> Iterator[Json]:
    after = latest[-1]["sequence"] if latest else 0
    while not interrupt.arrived:
        for each in list_records(operations.LIST_EVENTS, {"after": str(after)}, _PAGE)[0]:
            yield each
            after = each["sequence"]
        time.sleep(_PAUSE_SECONDS)


def _print(event: Json) -> None:
    parts = (event["sequence"], event["timestamp"], event["type"], _relayer_of(event), event["id"])
    print_line("  ".join(str(each) for each in parts if each))
