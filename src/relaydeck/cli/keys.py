"""`relaydeck key rotate`."""

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Protocol

from relaydeck.cli.local_changes import actor
from relaydeck.errors import OperatorError
from relaydeck.settings import read_settings
from relaydeck.store.open_store import open_store
from relaydeck.store.rotation import Rotation, RotationReport

_LEAST_PAUSE_SECONDS = 0.002


class _Advance(Protocol):
    def __call__(self, values: int) -> None: ...


def rotate() -> None:
    with closing(open_store(read_settings())) as store:
        rotation = Rotation(store)
        total = rotation.begin(int(time.time()), actor())
        with _progress(total) as advance:
            for values in _unhurried(rotation.batches()):
                advance(values)
        outcome = rotation.finish()
    _report(outcome)


def _unhurried(batches: Iterator[int]) -> Iterator[int]:
    """Rests as long as each batch took, so that the service's own writes find their turn."""
    while True:
        began = time.monotonic()
        values = next(batches, None)
        if values is None:
            return
        time.sleep(max(_LEAST_PAUSE_SECONDS, time.monotonic() - began))
        yield values


@contextmanager
def _progress(total: int) -> Iterator[_Advance]:
    if not sys.stderr.isatty():
        yield lambda values: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("sealing anew", total=total)
        yield lambda values: progress.advance(task, values)


def _report(outcome: RotationReport) -> None:
    keys = "1 old data key" if outcome.retired == 1 else f"{outcome.retired} old data keys"
    values = "1 value" if outcome.resealed == 1 else f"{outcome.resealed} values"
    sys.stdout.write(f"sealed {values} anew; removed {keys}\n")
    if outcome.damaged:
        listed = "\n".join(f"  {each}" for each in outcome.damaged)
        raise OperatorError(
            f"{len(outcome.damaged)} could not be sealed anew:\n{listed}",
            "Left as they are, and the keys they name were kept. Set them again, or remove the records.",
        )
