"""`relaydeck event tail`: the latest events, and with `--follow` those that come."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType

from relaydeck.cli.backend import Events, Json
from relaydeck.cli.output import print_json_line, print_line
from relaydeck.cli.target import backend

_PAGE = 1000
_PAUSE_SECONDS = 0.5
_INTERRUPTED = 130  # what a shell reports for a program that SIGINT ended


def tail(limit: int, *, follow: bool, as_json: bool) -> None:
    show = print_json_line if as_json else _print
    events = backend().events
    after = max(0, newest_sequence(lambda after: _next(events, after)) - limit)
    interrupt = Interrupt() if follow else None
    try:
        for event in _following(events, after, interrupt) if interrupt else _rest(events, after):
            show(event)
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


def newest_sequence(following: Callable[[int], int | None]) -> int:
    """The newest sequence number, in a few steps; 0 if there is no event.

    `following` returns the number of the event after a given one. A list starts with the oldest event, so the end is
    found by doubling the distance until nothing follows, and then by halving it.
    """
    newest, distance = 0, 1
    while (found := following(newest + distance - 1)) is not None:
        newest, distance = found, distance * 2
    while distance > 1:
        distance //= 2
        found = following(newest + distance - 1)
        newest = newest if found is None else found
    return newest


def _next(events: Events, after: int) -> int | None:
    found = events.list_events(after, 1)
    return int(found[0]["sequence"]) if found else None


def _rest(events: Events, after: int) -> Iterator[Json]:
    while found := events.list_events(after, _PAGE):
        yield from found
        after = found[-1]["sequence"]


def _following(events: Events, after: int, interrupt: Interrupt) -> Iterator[Json]:
    while not interrupt.arrived:
        for event in _rest(events, after):
            yield event
            after = event["sequence"]
        time.sleep(_PAUSE_SECONDS)


def _print(event: Json) -> None:
    print_line(f"{event['sequence']}  {event['timestamp']}  {event['type']}  {event['id']}")
