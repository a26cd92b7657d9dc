"""A child process of the demo: started apart from the terminal's signals, and stopped by its own id."""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from relaydeck.errors import OperatorError

_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.02


@contextmanager
def child(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A session of its own, so that Ctrl-C reaches the demo, which stops its children in order."""
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 (our own command)
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until(answers: Callable[[], bool], process: "subprocess.Popen[bytes]", name: str, log: Path) -> None:
    """Raises OperatorError with the last lines of the log when the process ends or does not answer."""
    deadline = time.monotonic() + _START_SECONDS
    while not answers():
        if process.poll() is not None or time.monotonic() > deadline:
            problem = "ended" if process.poll() is not None else f"does not answer after {_START_SECONDS:g} s"
            raise OperatorError(f"{name} {problem}. Its last output:\n{_tail(log)}")
        time.sleep(_POLL_SECONDS)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-10:])
