"""Metrics: each declared once, counted in shared memory, exposed in the Prometheus text format.

The shared file holds a row of cells for each process. A process adds only to its own row, and a scrape adds up the
rows. The kernel releases the lock on a row when its process ends; the next process that claims the row continues
its counts, so a counter never falls while the service runs.
"""

import fcntl
import os
import struct
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from typing import Literal

from relaydeck.errors import request_errors
from relaydeck.shared_memory import map_cells

PREFIX = "relaydeck_"
OTHER = "other"  # counts every value of a label that is not declared
BUCKETS_NS = tuple(
    round(milliseconds * 1e6)
    for milliseconds in (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)
)
_ROUTES = (
    "create_signer",
    "list_signers",
    "update_notification",
    "list_relayers",
    "relayer_rpc",
    "operations",
    "admin",
    "console",
    "unmatched",
    OTHER,
)
ESTIMATE_OUTCOMES = ("ok", "refused", "failed")
_STATUSES = (*map(str, sorted({200, 201, 503} | {error.status for error in request_errors()})), OTHER)


@dataclass(frozen=True, eq=False)  # compared and hashed by identity
class Metric:
    name: str  # without the prefix
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # each with its values
    looked_up: bool = False  # read from the database by each scrape instead of counted
    by: tuple[str, ...] = ()  # labels with values that are not declared, before the others
    combined: Literal["sum", "max", "oldest"] = "sum"  # of all processes; oldest: the least one that is not 0


REQUESTS = Metric(
    "requests_total",
    "counter",
    "Requests answered, by route and status. A combination appears with its first request.",
    {"route": _ROUTES, "status": _STATUSES},
)
REQUEST_SECONDS = Metric(
    "request_seconds",
    "histogram",
    "Seconds from the arrival of a request to its response, by route.",
    {"route": _ROUTES},
)
LOG_LINES_DROPPED = Metric(
    "log_lines_dropped_total", "counter", "Log lines dropped because the reader of standard error was too slow."
)
CONNECTIONS_CLOSED = Metric(
    "connections_closed_total", "counter", "Silent or unread connections closed to keep room for other clients."
)
UNEXPECTED_FAILURES = Metric(
    "unexpected_failures_total", "counter", "Requests that failed with an error the service does not expect."
)
HISTORY_CHANGES = Metric(
    "history_changes_total",
    "counter",
    "Times a worker found that the database had failed over or been rolled back, and loaded it again.",
)
FORGED_TOKENS = Metric(
    "forged_tokens_total", "counter", "Times a worker refused a token row that Relaydeck did not write."
)
DAMAGED_VALUES = Metric("damaged_values_total", "counter", "Times a sealed value could not be opened.")
LIMITS_FALLBACKS = Metric(
    "limits_fallbacks_total",
    "counter",
    "Times a worker switched to the rate limit of its own machine because the limit server did not answer.",
)
EVENT_TRIES = Metric(
    "event_tries_total",
    "counter",
    "Attempts to deliver an event, by outcome. failed: another attempt follows; dead: it was the last one.",
    {"outcome": ("delivered", "failed", "dead")},
)
SIGNER_CHECKS = Metric(
    "signer_checks_total",
    "counter",
    "Scheduled checks of signers, by result. failed: the key was not reached, or a relayer has another address.",
    {"result": ("ok", "failed")},
)
ESTIMATES = Metric(
    "estimates_total",
    "counter",
    "Fee estimates, by outcome. refused: the request or the transaction is at fault; failed: a node, a rate or the "
    "service is.",
    {"outcome": ESTIMATE_OUTCOMES},
)
ESTIMATE_SECONDS = Metric(
    "estimate_seconds", "histogram", "Seconds that a fee estimate took, by outcome.", {"outcome": ESTIMATE_OUTCOMES}
)
MONITOR_CHECKS = Metric(
    "monitor_checks_total",
    "counter",
    "Checks of relayers, by result. unanswered: no node of the relayer returned its nonce.",
    {"result": ("ok", "unanswered")},
)
MONITOR_ROUND = Metric(
    "monitor_round_timestamp_seconds",
    "gauge",
    "When the monitor last completed a round over the relayers that it checks here, in Unix time: of the process that "
    "is furthest behind. 0 where it checks none, and before the first round.",
    combined="oldest",
)
MONITOR_SHARDS = Metric(
    "monitor_shards",
    "gauge",
    "Shards of the relayers that are checked here. Over all replicas they add up to 64, or to 0 without relayers.",
)
MONITOR_LAG = Metric(
    "monitor_lag_seconds",
    "gauge",
    "How late the monitor checks relayers: since when the first one is due, or how much longer than the interval a "
    "check takes.",
    combined="max",
)
READ_MODEL_AGE = Metric(
    "read_model_age_seconds",
    "gauge",
    "Seconds since the oldest read model of a worker was known to be current. Always 0 with SQLite.",
    combined="max",
)
WORKERS = Metric("workers", "gauge", "Processes of the service that are running.")
RESIDENT_BYTES = Metric("resident_bytes", "gauge", "Memory that all workers hold, in bytes.")
OPEN_FILES = Metric("open_files", "gauge", "Open files and connections of all workers.")
LIMITS_ALONE = Metric(
    "limits_alone", "gauge", "Workers that use the rate limit of their own machine because the limit server is away."
)
STORE_AWAY = Metric(
    "store_away", "gauge", "Workers without a database connection: they serve lists from memory and refuse writes."
)
EVENTS = Metric("events_total", "counter", "Events recorded since the database was created.", looked_up=True)
DELIVERIES_PENDING = Metric(
    "deliveries_pending", "gauge", "Deliveries that are not finished, counted up to 10000.", looked_up=True
)
DELIVERIES_DEAD = Metric(
    "deliveries_dead", "gauge", "Deliveries given up and not yet removed, counted up to 10000.", looked_up=True
)
OLDEST_PENDING_DELIVERY = Metric(
    "oldest_pending_delivery_seconds", "gauge", "Age of the oldest delivery that is not finished.", looked_up=True
)

SIGNERS_CHECKED = Metric("signers_checked", "gauge", "Signers that were checked at least once.", looked_up=True)
SIGNERS_FAILING = Metric("signers_failing", "gauge", "Signers that failed their latest check.", looked_up=True)
OLDEST_SIGNER_CHECK = Metric(
    "oldest_signer_check_seconds", "gauge", "Age of the latest check of the signer checked longest ago.", looked_up=True
)
RELAYERS = Metric(
    "relayers",
    "gauge",
    "Relayers, by network and state, each counted up to 100000. total: all of them; low_balance: below `min_balance`; "
    "low_runway: a warning is in force. The first 100 networks.",
    {"state": ("total", "paused", "disabled", "low_balance", "low_runway")},
    looked_up=True,
    by=("network",),
)
LOWEST_RUNWAY = Metric(
    "lowest_runway_seconds",
    "gauge",
    "Seconds until the first relayer of a network is expected to reach `min_balance`, among the 1000 that run out "
    "first.",
    looked_up=True,
    by=("network",),
)
_NAMED = ("network", "relayer")
RELAYER_BALANCE = Metric(
    "relayer_balance_wei",
    "gauge",
    "The balance of each relayer that `RELAYDECK_METRICS_RELAYERS` names, when it was last checked.",
    looked_up=True,
    by=_NAMED,
)
RELAYER_RUNWAY = Metric(
    "relayer_runway_seconds",
    "gauge",
    "Seconds until such a relayer is expected to reach `min_balance`. Absent while the runway is unknown.",
    looked_up=True,
    by=_NAMED,
)
RELAYER_STATE = Metric(
    "relayer_state",
    "gauge",
    "1 for each state that such a relayer is in, 0 for the others.",
    {"state": ("paused", "disabled", "low_balance", "low_runway")},
    looked_up=True,
    by=_NAMED,
)

_HOSTS = "The first 100 hosts in use."
NODE_UP = Metric(
    "node_up",
    "gauge",
    f"Whether at least one URL on this host answers on the right chain, in any worker. {_HOSTS}",
    looked_up=True,
    by=("host",),
)
NODE_LAG = Metric(
    "node_lag_blocks",
    "gauge",
    f"Blocks behind the best node of its network, of the URL on this host that is furthest behind. "
    f"Absent until one that answers is compared. {_HOSTS}",
    looked_up=True,
    by=("host",),
)
NODE_LATENCY = Metric(
    "node_latency_seconds",
    "gauge",
    f"Average time of recent answers of the slowest URL on this host, of its slowest kind of question. "
    f"Absent before the first answer. {_HOSTS}",
    looked_up=True,
    by=("host",),
)
NODE_ERRORS = Metric(
    "node_errors_total",
    "counter",
    "Calls and probes of all URLs on this host that failed, and answers that were not believed, of running workers. "
    f"{_HOSTS}",
    looked_up=True,
    by=("host",),
)
NODE_DISAGREEMENTS = Metric(
    "node_disagreements_total",
    "counter",
    "Times that nodes of one network returned different fee data, in running workers.",
    looked_up=True,
)

METRICS = tuple(each for each in tuple(globals().values()) if isinstance(each, Metric))  # as declared above

_HISTOGRAM_CELLS = len(BUCKETS_NS) + 2  # the buckets, one above them, and the sum
_LOCK = struct.Struct("hhqqi4x")  # struct flock on 64-bit Linux

Cell = tuple[str, ...]  # the name of a metric and the values of its labels
# What was looked up: a value, or one for each combination of label values.
LookedUp = Mapping["Metric", int | Mapping[tuple[str, ...], int | str]]


def _cells_of(metric: Metric) -> Iterator[Cell]:
    return ((metric.name, *values) for values in product(*metric.labels.values()))


def _layout() -> tuple[dict[Cell, int], int]:
    """The place of each cell in a row, and the length of a row."""
    places: dict[Cell, int] = {}
    length = 0
    for metric in METRICS:
        for cell in () if metric.looked_up else _cells_of(metric):
            places[cell] = length
            length += _HISTOGRAM_CELLS if metric.type == "histogram" else 1
    return places, length


_PLACES, _BEAT = _layout()
_ROW = _BEAT + 1  # the last cell: when the process was last seen alive, in milliseconds of the machine's clock
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
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
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
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, row, 1, 0))
        except OSError:
            return False
        return True

    def beat(self) -> None:
        """Show the other processes that this worker is alive."""
        if self._row is not None:
            self._cells[self._row + _BEAT] = int(self._monotonic() * 1000)

    def silent_workers(self, seconds: float) -> int:
        """How many workers have not beaten for so long. One that is starting is not counted."""
        self._map_all()
        latest = (self._monotonic() - seconds) * 1000
        return sum(0 < self._cells[start + _BEAT] < latest for start in range(0, len(self._cells), _ROW))

    def requests(self, route: str, statuses: Iterable[int], nanoseconds: Iterable[int]) -> None:
        """Count many requests of a route at once: each cell is touched once however many there are."""
        if self._row is None:
            return
        route = route if route in _ROUTES else OTHER
        for status, amount in Counter(statuses).items():
            self.count(REQUESTS, route, str(status) if str(status) in _STATUSES else OTHER, by=amount)
        self._observe(self._row + _PLACES[REQUEST_SECONDS.name, route], sorted(nanoseconds))

    def _observe(self, cell: int, taken: list[int]) -> None:
        cells, counted = self._cells, 0
        for bucket, bound in enumerate(BUCKETS_NS):
            up_to = bisect_right(taken, bound)
            if up_to > counted:
                cells[cell + bucket] += up_to - counted
                counted = up_to
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

    def exposition(self, looked_up: LookedUp | None = None) -> str:
        """The Prometheus text format; `looked_up` holds the values of metrics that are not counted here."""
        sums, values, lines = self._sums(), looked_up or {}, []
        for metric in METRICS:
            if not metric.looked_up:
                lines += [*_head(metric), *_lines(metric, sums)]
            elif metric in values:
                lines += [*_head(metric), *_looked_up(metric, values[metric])]
        return "\n".join(lines) + "\n"

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


def _head(metric: Metric) -> list[str]:
    name = PREFIX + metric.name
    return [f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.type}"]


def _lines(metric: Metric, sums: list[int]) -> Iterator[str]:
    for cell in _cells_of(metric):
        place = _PLACES[cell]
        labels = [f'{label}="{value}"' for label, value in zip(metric.labels, cell[1:], strict=True)]
        if metric.type == "histogram":
            yield from _histogram(metric, labels, sums[place : place + _HISTOGRAM_CELLS])
        elif sums[place] or metric is not REQUESTS:
            yield _sample(metric.name, labels, sums[place])


def _looked_up(metric: Metric, found: int | Mapping[tuple[str, ...], int | str]) -> Iterator[str]:
    if isinstance(found, int):
        yield _sample(metric.name, [], found)
        return
    names = (*metric.by, *metric.labels)
    for values, amount in found.items():
        labels = [f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)]
        yield _sample(metric.name, labels, amount)


def _escaped(value: str) -> str:
    """A name from the database, as the text format writes a label's value."""
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
    return f"{PREFIX}{name}{shown} {value}"


def metrics_page() -> str:
    """`docs/reference/metrics.md`."""
    rows = [f"| `{PREFIX}{each.name}` | {each.type} | {_label_text(each)} | {each.help} |" for each in METRICS]
    return "\n".join(
        [
            "# Metrics",
            "",
            "`GET /metrics` returns these metrics in the Prometheus text format, summed over all processes of the",
            "service. It needs no credential; `RELAYDECK_OPERATIONS_ADDRESS` moves it to another port.",
            "",
            "`make docs` prints this page from `src/relaydeck/http/metrics.py`; a test keeps it current.",
            "",
            "| metric | type | labels | meaning |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


_NAMES = {"network": "name", "relayer": "id", "host": "host and port"}


def _label_text(metric: Metric) -> str:
    labels = [f"`{label}`: {', '.join(values)}" for label, values in metric.labels.items()]
    return "; ".join([*(f"`{each}`: its {_NAMES[each]}" for each in metric.by), *labels]) or "–"
