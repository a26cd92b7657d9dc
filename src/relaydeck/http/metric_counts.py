"""What each process counts, in a file of shared memory.

The file holds a row of cells for each process. A process adds only to its own row, and a scrape adds up the rows. The
kernel releases the lock on a row when its process ends; the next process that claims the row continues its counts, so
a counter never falls while the service runs.
"""

import fcntl
import os
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import count, product
from pathlib import Path

from relaydeck.http.metrics import (
    BUCKETS_NS,
    METRICS,
    OTHER,
    REQUEST_SECONDS,
    REQUESTS,
    ROUTES,
    STATUSES,
    Figures,
    LabelValues,
    Metric,
)
from relaydeck.http.metrics_text import exposition
from relaydeck.shared_memory import LOCK, map_cells

_HISTOGRAM_CELLS = len(BUCKETS_NS) + 2  # the buckets, one above them, and the sum
_Cell = tuple[str, ...]  # the name of a metric and the values of its labels


def _combinations(metric: Metric) -> Iterator[LabelValues]:
    return product(*metric.labels.values())


def _layout() -> tuple[dict[_Cell, int], int]:
    """The place of each cell in a row, and the length of a row."""
    places: dict[_Cell, int] = {}
    length = 0
    for metric in METRICS:
        for values in () if metric.looked_up else _combinations(metric):
            places[metric.name, *values] = length
            length += _HISTOGRAM_CELLS if metric.type == "histogram" else 1
    return places, length


_PLACES, _BEAT = _layout()
_ROW = _BEAT + 1  # the last cell: when the process was last seen alive, in milliseconds of the machine's clock
_STARTING = 1 << 63  # added to that cell by a worker that has not beaten yet: when its start began
_LONGEST_START_MS = 600_000  # loading a million records from a busy database takes minutes
_LARGEST = [_PLACES[(each.name,)] for each in METRICS if each.combined == "max"]
_OLDEST = [_PLACES[(each.name,)] for each in METRICS if each.combined == "oldest"]


def allocate(path: Path, processes: int) -> None:
    """Create the file with a row for each process. Raises OSError when the disk is full."""
    path.unlink(missing_ok=True)
    try:
        map_cells(path, processes * _ROW)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def remove_abandoned(paths: Iterable[Path]) -> None:
    """Remove the files of services that were killed: they take space, which a full disk lacks.

    Such a file is named after a process that does not run, and no process holds a row of it. Both must be true: a
    service that is starting holds no row yet, and the process of a service in another container is not visible here.
    """
    for path in paths:
        if Path("/proc", path.name.rpartition("-")[2]).exists():
            continue
        with suppress(OSError), path.open("r+b") as file:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
            path.unlink()


class Metrics:
    def __init__(self, path: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._monotonic = monotonic
        self._cells = map_cells(path, _ROW)
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._row: int | None = None

    def claim_row(self) -> None:
        """Claim the first row that no running process holds. The file grows when all of them are held."""
        row = next(row for row in count() if self._try_to_lock(row))
        if len(self._cells) < (row + 1) * _ROW:
            self._cells = map_cells(self._path, (row + 1) * _ROW)
        self._row = row * _ROW
        self._cells[self._row + _BEAT] = 0
        for metric in METRICS:
            if metric.type == "gauge" and not metric.looked_up:
                self.set(metric, 0)  # a process that ended may have left another value

    def _try_to_lock(self, row: int) -> bool:
        # A lock of the open file, not of the process: those are lost as soon as anything closes the same file.
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, row, 1, 0))
        except OSError:
            return False
        return True

    def start(self) -> None:
        """Show the other processes that a worker is starting. It beats when it serves requests."""
        if self._row is not None:
            self._cells[self._row + _BEAT] = _STARTING + int(self._monotonic() * 1000)

    def beat(self) -> None:
        """Show the other processes that this worker is alive."""
        if self._row is not None:
            self._cells[self._row + _BEAT] = int(self._monotonic() * 1000)

    def a_worker_lives(self, seconds: float) -> bool:
        """Whether any worker has beaten within so long, or is starting."""
        running = [beat for beat in self._beats() if beat]
        return len(running) > self._silent(running, seconds)

    def silent_workers(self, seconds: float) -> int:
        """How many workers have not beaten for so long. One that is starting has more time."""
        return self._silent(self._beats(), seconds)

    def _silent(self, beats: list[int], seconds: float) -> int:
        now = int(self._monotonic() * 1000)
        latest, latest_start = now - seconds * 1000, _STARTING + now - _LONGEST_START_MS
        return sum(0 < beat < latest or _STARTING <= beat < latest_start for beat in beats)

    @property
    def a_worker_has_started(self) -> bool:
        return any(0 < beat < _STARTING for beat in self._beats())

    def _beats(self) -> list[int]:
        self._map_all()
        return [self._cells[start + _BEAT] for start in range(0, len(self._cells), _ROW)]

    def requests(self, route: str, status: int, nanoseconds: list[int]) -> None:
        """Count requests with the same outcome by how long they took: each cell is touched once for all of them."""
        if self._row is None:
            return
        route = route if route in ROUTES else OTHER
        text = str(status)
        self.count(REQUESTS, route, text if text in STATUSES else OTHER, by=len(nanoseconds))
        self._observe(self._row + _PLACES[REQUEST_SECONDS.name, route], sorted(nanoseconds))

    def _observe(self, cell: int, taken: list[int]) -> None:
        cells, counted = self._cells, 0
        for bucket, bound in enumerate(BUCKETS_NS):
            up_to = bisect_right(taken, bound)
            if up_to > counted:
                cells[cell + bucket] += up_to - counted
                counted = up_to
                if counted == len(taken):  # as a rule all of them are short
                    break
        cells[cell + len(BUCKETS_NS)] += len(taken) - counted
        cells[cell + len(BUCKETS_NS) + 1] += sum(taken)

    def count(self, metric: Metric, *labels: str, by: int = 1) -> None:
        if self._row is not None:
            self._cells[self._row + _PLACES[metric.name, *labels]] += by

    def set(self, metric: Metric, value: int) -> None:
        if self._row is not None:
            self._cells[self._row + _PLACES[(metric.name,)]] = value

    def observe(self, metric: Metric, nanoseconds: int, *labels: str) -> None:
        """One more value of a histogram."""
        if self._row is not None:
            cell = self._row + _PLACES[metric.name, *labels]
            self._cells[cell + bisect_left(BUCKETS_NS, nanoseconds)] += 1
            self._cells[cell + len(BUCKETS_NS) + 1] += nanoseconds

    def exposition(self, looked_up: Figures | None = None) -> str:
        """The Prometheus text format; `looked_up` holds the figures of metrics that are not counted here."""
        sums = self._sums()
        counted = {metric: _figures_of(metric, sums) for metric in METRICS if not metric.looked_up}
        return exposition({**counted, **(looked_up or {})})

    def _map_all(self) -> None:
        if os.fstat(self._file).st_size > len(self._cells) * 8:  # another process has added a row
            self._cells = map_cells(self._path, 0)

    def _sums(self) -> list[int]:
        self._map_all()
        rows = [self._cells[start : start + _ROW] for start in range(0, len(self._cells), _ROW)]
        columns = list(zip(*rows, strict=True))
        sums = [sum(cells) for cells in columns]
        for place in _LARGEST:
            sums[place] = max(columns[place], default=0)
        for place in _OLDEST:
            sums[place] = min(filter(None, columns[place]), default=0)
        return sums


def _figures_of(metric: Metric, sums: list[int]) -> dict[LabelValues, int | str | list[int]]:
    places = {values: _PLACES[metric.name, *values] for values in _combinations(metric)}
    if metric.type == "histogram":
        return {values: sums[place : place + _HISTOGRAM_CELLS] for values, place in places.items()}
    return {values: sums[place] for values, place in places.items()}
