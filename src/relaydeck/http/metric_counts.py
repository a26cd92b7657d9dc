"""What each process counts, in a file of shared memory.

The file holds a row of cells for each process. A process adds only to its own row, and a scrape adds up the rows. The
kernel releases the lock on a row when its process ends; the next process that claims the row continues its counts, so
a counter never falls while the service runs.
"""

import fcntl
import os
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from relaydeck.errors import WRITE_CAUSES
from relaydeck.http import metrics as m
from relaydeck.http.metrics import BUCKETS_NS, METRICS, OTHER, ROUTES, STATUSES, Figures, LabelValues, Metric
from relaydeck.process.shared_memory import LOCK, is_locked, map_cells

_HISTOGRAM_CELLS = len(BUCKETS_NS) + 2  # the buckets, one above them, and the sum
_Cell = tuple[str, ...]  # the name of a metric and the values of its labels


def _combinations(metric: Metric) -> Iterator[LabelValues]:
    return product(*metric.labels.values())


def _layout() -> tuple[dict[_Cell, int], int]:
    """The place of each cell in a row, and the length of a row."""
    places: dict[_Cell, int] = {}
    length = 1  # the mark comes first
    for metric in METRICS:
        for values in () if metric.looked_up else _combinations(metric):
            places[metric.name, *values] = length
            length += _HISTOGRAM_CELLS if metric.type == "histogram" else 1
    return places, length


_PLACES, _BEAT = _layout()  # when the process was last seen alive, in milliseconds of the machine's clock
_DRAIN = _BEAT + 1  # in the first row: whether the service drains. The parent process sets it for every worker.
_WRITTEN = _DRAIN + 1  # when the process last wrote to the database, on the same clock
_CAUSE = _WRITTEN + 1  # the number of the cause why it cannot write now; 0 while it can
_PID = _CAUSE + 1  # of the process
_ROW = _PID + 1
_MARK = crc32(repr((_PLACES, _ROW)).encode())  # the first cell: a file of another version has another one
_CAUSES = ("", *WRITE_CAUSES)
SILENT_SECONDS = 10.0  # without a beat, of which there is one each second: the worker does not respond
_LONGEST_WRITE_MS = 30_000  # a worker that reports nothing for so long hangs
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


class Writes(NamedTuple):
    """Whether the workers of a service can write to the database."""

    cause: str = "unknown"  # why one of them cannot, of WRITE_CAUSES or `no_worker`; empty while all can
    seconds: int | None = None  # since the last success, of the worker where that is longest ago

    @property
    def text(self) -> str:
        since = "" if self.seconds is None else f"; the last write succeeded {self.seconds} seconds ago"
        return f"{_TEXTS[self.cause]}{since}" if self.cause else _TEXTS[""]


_TEXTS = {
    "": "writes work",
    "unknown": "no worker has tried to write yet",
    "no_worker": "no worker responds",
    **WRITE_CAUSES,
}


def read_writes(paths: Iterable[Path]) -> Writes:
    """As the services with these files report it."""
    now = int(time.monotonic() * 1000)
    found = [_writes(_rows_of(path), now) for path in paths if is_locked(path)]
    return max(found, key=lambda each: (each.cause != "unknown", each.cause), default=Writes())


def silence(workers: int) -> str:
    return f"{workers} worker{'s do' if workers > 1 else ' does'} not respond"


def read_silent(paths: Iterable[Path]) -> list[int]:
    """The processes of the workers that do not respond, of the services with these files."""
    now = int(time.monotonic() * 1000)
    rows = [row for path in paths if is_locked(path) for row in _rows_of(path)]
    return [row[_PID] for row in rows if _is_silent(row[_BEAT], now, SILENT_SECONDS)]


def counted_by(paths: Iterable[Path], metric: Metric) -> int:
    """What all processes of the services with these files have counted."""
    place = _PLACES[(metric.name,)]
    return sum(row[place] for path in paths if is_locked(path) for row in _rows_of(path))


def _rows_of(path: Path) -> "list[memoryview[int]]":
    cells = memoryview(path.read_bytes()).cast("Q")
    rows = (cells[start : start + _ROW] for start in range(0, len(cells) - _ROW + 1, _ROW))
    return [row for row in rows if row[0] == _MARK]


def _is_silent(beat: int, now: int, seconds: float) -> bool:
    """One that is starting has more time."""
    return 0 < beat < now - seconds * 1000 or _STARTING <= beat < _STARTING + now - _LONGEST_START_MS


def _writes(rows: "list[memoryview[int]]", now: int) -> Writes:
    rows = [row for row in rows if 0 < row[_BEAT] < _STARTING and (row[_WRITTEN] or row[_CAUSE])]
    if not rows:
        return Writes()
    # What a worker last reported that does not respond says nothing about the database.
    responding = [row for row in rows if not _is_silent(row[_BEAT], now, SILENT_SECONDS)]
    hangs = any(not row[_CAUSE] and now - row[_WRITTEN] > _LONGEST_WRITE_MS for row in responding)
    cause = _CAUSES[max((row[_CAUSE] for row in responding), default=0)] or ("timeout" if hangs else "")
    cause, written = cause if responding else "no_worker", min(row[_WRITTEN] for row in responding or rows)
    return Writes(cause, max(now - written, 0) // 1000 if written else None)


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
        self._take(row)
        self._cells[row * _ROW + _PID] = os.getpid()

    def _take(self, row: int) -> None:
        self._row = row * _ROW
        self._cells[self._row] = _MARK
        for cell in (_BEAT, _WRITTEN, _CAUSE):
            self._cells[self._row + cell] = 0
        for metric in METRICS:
            if metric.type == "gauge" and not metric.looked_up:
                self.set(metric, 0)  # a process that ended may have left another value

    def _try_to_lock(self, row: int, kind: int = fcntl.F_WRLCK) -> bool:
        # A lock of the open file, not of the process: those are lost as soon as anything closes the same file.
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, LOCK.pack(kind, os.SEEK_SET, row, 1, 0))
        except OSError:
            return False
        return True

    def count_death(self, reason: str) -> None:
        """Count a worker that has ended, and let no row show a process that has: it may be replaced late, or never."""
        ended = [row for row in range(len(self._rows())) if self._try_to_lock(row)]
        for row in ended:
            self._take(row)
        self.count(m.WORKER_RESTARTS, reason)
        self._row = None
        for row in ended:
            self._try_to_lock(row, fcntl.F_UNLCK)

    def close(self) -> None:
        os.close(self._file)

    def start(self) -> None:
        """Show the other processes that a worker is starting. It beats when it serves requests."""
        if self._row is not None:
            self._cells[self._row + _BEAT] = _STARTING + int(self._monotonic() * 1000)

    def beat(self) -> None:
        """Show the other processes that this worker is alive."""
        if self._row is not None:
            self._cells[self._row + _BEAT] = int(self._monotonic() * 1000)

    def drain(self) -> None:
        """Let every process of the service know that it drains."""
        self._cells[_DRAIN] = 1

    @property
    def drain_mark(self) -> Callable[[], int]:
        """Returns what is not 0 while the service drains. For every request, so it takes no step in Python."""
        return partial(self._cells.__getitem__, _DRAIN)

    def is_draining(self) -> bool:
        return bool(self._cells[_DRAIN])

    def set_writes(self, written_at: float | None, cause: str) -> None:
        """When this worker last wrote to the database, and why it cannot now; empty while it can."""
        if self._row is not None:
            self._cells[self._row + _CAUSE] = _CAUSES.index(cause)
            self._cells[self._row + _WRITTEN] = int((written_at or 0.0) * 1000)

    def writes(self) -> Writes:
        """Of all workers."""
        return _writes(self._rows(), int(self._monotonic() * 1000))

    def a_worker_lives(self, seconds: float) -> bool:
        """Whether any worker has beaten within so long, or is starting."""
        return sum(map(bool, self._beats())) > self.silent_workers(seconds)

    def silent_workers(self, seconds: float) -> int:
        """How many workers have not beaten for so long."""
        now = int(self._monotonic() * 1000)
        return sum(_is_silent(beat, now, seconds) for beat in self._beats())

    @property
    def a_worker_has_started(self) -> bool:
        return any(0 < beat < _STARTING for beat in self._beats())

    def _beats(self) -> list[int]:
        return [row[_BEAT] for row in self._rows()]

    def requests(self, route: str, status: int, nanoseconds: list[int]) -> None:
        """Count requests with the same outcome by how long they took."""
        route, text = route if route in ROUTES else OTHER, str(status)
        self.count(m.REQUESTS, route, text if text in STATUSES else OTHER, by=len(nanoseconds))
        self.observe(m.REQUEST_SECONDS, nanoseconds, route)

    def count(self, metric: Metric, *labels: str, by: int = 1) -> None:
        if self._row is not None:
            self._cells[self._row + _PLACES[metric.name, *labels]] += by

    def set(self, metric: Metric, value: int) -> None:
        if self._row is not None:
            self._cells[self._row + _PLACES[(metric.name,)]] = value

    def total(self, metric: Metric) -> int:
        """Of all processes."""
        return sum(row[_PLACES[(metric.name,)]] for row in self._rows())

    def observe(self, metric: Metric, nanoseconds: list[int], *labels: str) -> None:
        """More values of a histogram: each cell is touched once for all of them."""
        if self._row is None:
            return
        cells, cell = self._cells, self._row + _PLACES[metric.name, *labels]
        if len(nanoseconds) == 1:
            cells[cell + bisect_left(BUCKETS_NS, nanoseconds[0])] += 1
            cells[cell + len(BUCKETS_NS) + 1] += nanoseconds[0]
            return
        taken, counted = sorted(nanoseconds), 0
        for bucket, bound in enumerate((*BUCKETS_NS, taken[-1])):
            if (up_to := bisect_right(taken, bound)) > counted:
                cells[cell + bucket] += up_to - counted
                counted = up_to
                if counted == len(taken):  # as a rule all of them are short
                    break
        cells[cell + len(BUCKETS_NS) + 1] += sum(taken)

    def exposition(self, looked_up: Figures | None = None) -> str:
        """The Prometheus text format; `looked_up` holds the figures of metrics that are not counted here."""
        sums, writes = self._sums(), self.writes()
        counted = {metric: _figures_of(metric, sums) for metric in METRICS if not metric.looked_up}
        if writes.cause != "unknown":
            counted[m.WRITES_OK] = {(): int(not writes.cause)}
            counted[m.WRITES_LAST_SUCCESS] = {} if writes.seconds is None else {(): writes.seconds}
        return exposition({**counted, **(looked_up or {})})

    def _rows(self) -> "list[memoryview[int]]":
        """Of all processes. One that was never claimed is zero."""
        if os.fstat(self._file).st_size > len(self._cells) * 8:  # another process has added a row
            self._cells = map_cells(self._path, 0)
        return [self._cells[start : start + _ROW] for start in range(0, len(self._cells), _ROW)]

    def _sums(self) -> list[int]:
        columns = list(zip(*self._rows(), strict=True))
        sums = [sum(cells) for cells in columns]
        for place in _LARGEST:
            sums[place] = max(columns[place], default=0)
        for place in _OLDEST:
            sums[place] = min(filter(None, columns[place]), default=0)
        return sums


def served_by(run_folder: Path) -> tuple[str, int]:
    """The process id of the service that uses this folder and its number of workers; if none runs, this process."""
    for path in run_folder.glob("metrics-*"):
        if Path("/proc", pid := path.name.rpartition("-")[2]).exists():
            return pid, max(1, path.stat().st_size // (8 * _ROW) - 1)
    return "self", 1


def _figures_of(metric: Metric, sums: list[int]) -> dict[LabelValues, int | str | list[int]]:
    places = {values: _PLACES[metric.name, *values] for values in _combinations(metric)}
    if metric.type == "histogram":
        return {values: sums[place : place + _HISTOGRAM_CELLS] for values, place in places.items()}
    return {values: sums[place] for values, place in places.items()}


def exposition(figures: Figures) -> str:
    """The metrics that have figures, in the order of their declarations."""
    lines = [line for metric in METRICS if metric in figures for line in _lines(metric, figures[metric])]
    return "\n".join(lines) + "\n"


def _lines(metric: Metric, found: int | Mapping[LabelValues, int | str | list[int]]) -> Iterator[str]:
    yield f"# HELP {m.PREFIX}{metric.name} {metric.help}"
    yield f"# TYPE {m.PREFIX}{metric.name} {metric.type}"
    names = (*metric.by, *metric.labels)
    for values, amount in {(): found}.items() if isinstance(found, int) else found.items():
        labels = [f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)]
        if isinstance(amount, list):
            yield from _histogram(metric, labels, amount)
        elif amount or metric is not m.REQUESTS:
            yield _sample(metric.name, labels, amount)


def _escaped(value: str) -> str:
    """The value of a label, which may be a name from the database."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _histogram(metric: Metric, labels: list[str], cells: list[int]) -> Iterator[str]:
    *buckets, total_ns = cells
    if not any(buckets):
        return
    running = 0
    for bound, amount in zip((*(f"{ns / 1e9:g}" for ns in BUCKETS_NS), "+Inf"), buckets, strict=True):
        running += amount
        yield _sample(f"{metric.name}_bucket", [*labels, f'le="{bound}"'], running)
    yield _sample(f"{metric.name}_sum", labels, f"{total_ns / 1e9:.9f}")
    yield _sample(f"{metric.name}_count", labels, running)


def _sample(name: str, labels: list[str], value: int | str) -> str:
    shown = f"{{{','.join(labels)}}}" if labels else ""
    return f"{m.PREFIX}{name}{shown} {value}"
