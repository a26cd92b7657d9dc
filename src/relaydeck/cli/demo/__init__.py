"""`relaydeck demo`: the whole story on one machine, in a temporary folder. Everything it starts, it stops."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NoReturn

from relaydeck.cli.demo.node import development_node
from relaydeck.cli.demo.receiver import running_receiver
from relaydeck.cli.demo.report import print_steps
from relaydeck.cli.demo.service import DemoService, demo_service
from relaydeck.cli.demo.story import tell
from relaydeck.cli.json_shapes import Demo
from relaydeck.cli.output import print_json, print_line, print_note

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(*, keep: bool, as_json: bool) -> None:
    print_note("starting a node, a webhook receiver and a service …")
    with _stopped_by_signals(), ExitStack() as running:
        folder = Path(running.enter_context(TemporaryDirectory(prefix="relaydeck-demo-")))
        node = running.enter_context(development_node(folder))
        received = running.enter_context(running_receiver())
        service = running.enter_context(demo_service(folder))
        report = tell(service, node, received)
        _print(report, as_json)
        if keep:
            _wait(service, as_json)


def _print(report: Demo, as_json: bool) -> None:
    if as_json:
        print_json(report)
    else:
        print_steps(report)


def _wait(service: DemoService, as_json: bool) -> None:
    """Until a signal, or the end of the service."""
    if not as_json:
        for line in service.how_to_reach():
            print_line(line)
    print_note("Everything keeps running. Press Ctrl-C to stop it and to remove its folder.")
    try:
        service.process.wait()
    except KeyboardInterrupt:
        print_note("\nstopped; the folder is removed")


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Every signal that ends the command runs what stops the rest."""
    before = {each: signal.signal(each, _interrupt) for each in _STOP_SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
