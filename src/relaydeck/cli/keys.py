"""`relaydeck key rotate`."""

import time
from collections.abc import Iterator

from relaydeck.cli.json_shapes import Rotated
from relaydeck.cli.local.store import actor, existing_store
from relaydeck.cli.output import print_outcome, progress_bar
from relaydeck.errors import OperatorError
from relaydeck.quantities import counted
from relaydeck.store.rotation import Rotation, RotationReport

_MIN_PAUSE_SECONDS = 0.002


def rotate(as_json: bool) -> None:
    with existing_store() as store:
        rotation = Rotation(store)
        total = rotation.begin(int(time.time()), actor())
        with progress_bar("sealing with the new key", total) as advance:
            for values in _paced(rotation.batches()):
                advance(values)
        report = rotation.finish()
    _print(report, as_json)


def _paced(batches: Iterator[int]) -> Iterator[int]:
    """Pause after each batch for as long as it took, so that a running service gets its turn to write."""
    while True:
        began = time.monotonic()
        values = next(batches, None)
        if values is None:
            return
        time.sleep(max(_MIN_PAUSE_SECONDS, time.monotonic() - began))
        yield values


def _print(report: RotationReport, as_json: bool) -> None:
    values, keys = counted(report.resealed, "value"), counted(report.retired, "old data key")
    shown = Rotated(report.resealed, report.retired, [str(each) for each in report.damaged])
    print_outcome(shown, as_json, f"sealed {values} with a new data key; removed {keys}")
    if report.damaged:
        listed = "\n".join(f"  {each}" for each in report.damaged)
        raise OperatorError(
            f"{counted(len(report.damaged), 'value')} could not be opened:\n{listed}",
            "They are unchanged, and the data keys they refer to were kept. Set them again, or delete the records.",
        )
