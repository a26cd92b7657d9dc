"""`relaydeck event tail`: the latest events, and with `--follow` those that come."""

import signal
import sys
import time
from collections.abc import Iterator
from itertools import chain
from types import FrameType

from relaydeck.cli.backend import Events, Json
from relaydeck.cli.event_actions import relayer_of
from relaydeck.cli.output import print_json_line, print_line
from relaydeck.cli.target import backend

_PAGE = 1000
_PAUSE_SECONDS = 0.5
_INTERRUPTED = 130  # what a shell reports for a program that SIGINT ended


def tail(limit: int, *, follow: bool, as_json: bool) -> None:
    show = print_json_line if as_json else _print
    events = backend().events
    latest = events.list_events({"order": "newest"}, limit)[::-1]
    interrupt = Interrupt() if follow else None
    try:
        for event in chain(latest, _following(events, latest, interrupt) if interrupt else ()):
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


def _following(events: Events, latest: list[Json], interrupt: Interrupt) -> Iterator[Json]:
    """The events that come after the latest ones."""
    after = latest[-1]["sequence"] if latest else 0
    while not interrupt.arrived:
        for event in events.list_events({"after": str(after)}, _PAGE):
            yield event
            after = event["sequence"]
        time.sleep(_PAUSE_SECONDS)


def _print(event: Json) -> None:
    parts = (event["sequence"], event["timestamp"], event["type"], relayer_of(event), event["id"])
    print_line("  ".join(str(each) for each in parts if each))
