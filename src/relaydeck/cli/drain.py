"""`relaydeck drain`: find the running service, ask it to end, wait until it has ended.

The parent process of a service holds a lock on a file of the run folder. The command finds the process by that lock,
writes the number of seconds into the file and sends SIGUSR1. A number in the file means that the service drains.
"""

import errno
import os
import select
import signal
import time
from pathlib import Path
from typing import Annotated, NamedTuple

import click

from relaydeck.cli.options import as_json, at_home
from relaydeck.cli.output import Shape, about, print_note, print_outcome, progress_bar
from relaydeck.errors import OperatorError
from relaydeck.process.shared_memory import lock_holder
from relaydeck.settings.model import read_settings

_LONGEST_END_SECONDS = 600  # stop_timeout_seconds of the service may be long


class Service(NamedTuple):
    pid: int  # of its parent process; below 1: it runs in another container
    asked: Path


class Drained(Shape, frozen=True):
    pid: Annotated[int, about("The process that ended.")]
    seconds: Annotated[int, about("How long it served requests while it reported that it is not ready.")]


@click.command(epilog="\b\nExamples:\n  relaydeck drain\n  relaydeck drain --for 30")
@click.option(
    "--for",
    "seconds",
    type=click.IntRange(0, 3600),
    default=15,
    show_default=True,
    help="How many seconds to serve requests: longer than the load balancer takes to notice the drain.",
)
@as_json(Drained)
@at_home
def drain(seconds: int, as_json: bool) -> None:
    """Stop the service that runs on this home, so that no request fails behind a load balancer.

    At once, /readyz answers 503 "draining", so that a load balancer which checks it chooses another replica. The
    service answers requests that still arrive, and closes their connections. After --for seconds it stops as on
    SIGTERM: it finishes the requests in progress and exits with 0. The command waits for that.

    SIGUSR1 to the parent process of the service does the same, for 15 seconds. SIGTERM ends a drain early.
    """
    service = _running_service(read_settings().run_folder)
    try:
        process = os.pidfd_open(service.pid)
        if lock_holder(service.asked) != service.pid:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))  # it ended, and its number may be another's
        if already := service.asked.read_text("ascii"):
            seconds = int(already)
        else:
            service.asked.write_text(str(seconds), "ascii")
            signal.pidfd_send_signal(process, signal.SIGUSR1)
    except OSError as error:
        raise OperatorError(
            f"process {service.pid} cannot be drained: {error.strerror}", "Run the command as the user of the service."
        ) from None
    if already:
        print_note(f"process {service.pid} is draining already, for {seconds} s in all: waiting until it has ended")
    else:
        print_note(f"draining process {service.pid}: it is not ready from now on, and serves requests for {seconds} s")
    if not _await_end(process, seconds):
        raise OperatorError(f"process {service.pid} has not ended", "Its log says what it does.")
    print_outcome(Drained(service.pid, seconds), as_json, f"process {service.pid} has ended")


def running_services(run_folder: Path) -> list[Service]:
    held = [(lock_holder(path), path) for path in sorted(run_folder.glob("drain-*"))]
    return [Service(pid, path) for pid, path in held if pid is not None]


def _running_service(run_folder: Path) -> Service:
    found = running_services(run_folder)
    if not found:
        raise OperatorError(
            f"no service of the home {run_folder.parent} that can be drained is running",
            "Name another home with --home. A service of an older release is stopped with SIGTERM.",
        )
    if len(found) > 1:
        pids = ", ".join(str(each.pid) for each in found)
        raise OperatorError(f"several services of this home are running: {pids}", "Send SIGUSR1 to one of them.")
    if found[0].pid <= 0:
        raise OperatorError("the service runs in another container", "Run the command in that container.")
    return found[0]


def _await_end(process: int, seconds: int) -> bool:
    end = time.monotonic() + seconds + _LONGEST_END_SECONDS
    with progress_bar("draining", seconds) as advance:
        while time.monotonic() < end:
            if select.select([process], [], [], 1.0)[0]:
                return True
            advance(1)
    return False
