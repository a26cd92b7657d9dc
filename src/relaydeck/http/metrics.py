"""Counters in shared memory: a worker adds to its own row, a scrape sums the rows.

A row is claimed with a lock that the kernel releases when its worker ends; the next worker to claim it
goes on counting where the last one stopped, so sums never fall while the service runs.
"""

import fcntl
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from relaydeck.shared_memory import map_cells

ROUTES = (
    "create_signer",
    "list_signers",
    "update_notification",
    "list_relayers",
    "relayer_rpc",
    "operations",
    "admin",
    "unmatched",
)
STATUSES = (200, 201, 400, 401, 403, 404, 405, 409, 412, 413, 422, 429, 500, 503)
BUCKETS_NS = tuple(
    round(seconds * 1e9)
    for seconds in (
        0.0001,
        0.00025,
        0.0005,
        0.001,
        0.0025,
        0.005,
        0.01,
        0.025,
        0.05,
        0.1,
        0.25,
        0.5,
        1,
        2.5,
        5,
        10,
    )
)
COUNTERS = {
    "log_lines_dropped": "Log lines dropped because their reader was too slow.",
    "unexpected_failures": "Requests that ended in an error nobody foresaw.",
    "damaged_values": "Times a sealed value did not open.",
    "limits_fallbacks": "Times a worker began to limit by its machine alone because the shared limits did not answer.",
}
GAUGES = {
    "limits_alone": "Workers that limit by their machine alone because the shared limits do not answer.",
    "store_away": "Workers whose database is away: they answer lists from memory, and no writes.",
}
TRY_OUTCOMES = ("delivered", "failed", "dead")  # failed: to be tried again

_FIRST_BUCKET = len(STATUSES)
_PER_ROUTE = len(STATUSES) + len(BUCKETS_NS) + 2  # statuses, buckets and the one above them, sum
_PLAIN_CELLS = (*COUNTERS, *TRY_OUTCOMES, *GAUGES)
_ROW = len(ROUTES) * _PER_ROUTE + len(_PLAIN_CELLS)
_MOST_WORKERS = 64
_STATUS_OFFSET = {status: offset for offset, status in enumerate(STATUSES)}
_CELL_OFFSET = {name: len(ROUTES) * _PER_ROUTE + offset for offset, name in enumerate(_PLAIN_CELLS)}


class Sample(NamedTuple):
    """A figure that nobody counts because it can be looked up."""

    name: str
    kind: Literal["counter", "gauge"]
    meaning: str
    value: int


class Metrics:
    def __init__(self, path: Path) -> None:
        self._cells = map_cells(path, _MOST_WORKERS * _ROW)
        self._lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._row: int | None = None
        self._route_base: dict[str, int] = {}

    def claim_row(self) -> None:
        """Take a row that no living worker holds."""
        for row in range(_MOST_WORKERS):
            try:
                fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, row)
            except OSError:
                continue
            self._row = row * _ROW
            self._route_base = {route: self._row + i * _PER_ROUTE for i, route in enumerate(ROUTES)}
            for gauge in GAUGES:
                self.set(gauge, 0)  # what a worker that is gone left behind
            return

    def requests(self, route: str, statuses: Iterable[int], nanoseconds: Iterable[int]) -> None:
        """Count many requests of a route at once: each cell is touched once however many there are."""
        cells, base = self._cells, self._route_base[route]
        for status, amount in Counter(statuses).items():
            cells[base + _STATUS_OFFSET[status]] += amount
        taken = sorted(nanoseconds)
        counted = 0
        for bucket, bound in enumerate(BUCKETS_NS):
            up_to = bisect_right(taken, bound)
            if up_to > counted:
                cells[base + _FIRST_BUCKET + bucket] += up_to - counted
                counted = up_to
        cells[base + _FIRST_BUCKET + len(BUCKETS_NS)] += len(taken) - counted
        cells[base + _PER_ROUTE - 1] += sum(taken)

    def count(self, counter: str, by: int = 1) -> None:
        if self._row is not None:
            self._cells[self._row + _CELL_OFFSET[counter]] += by

    def set(self, gauge: str, value: int) -> None:
        if self._row is not None:
            self._cells[self._row + _CELL_OFFSET[gauge]] = value

    def count_try(self, outcome: str) -> None:
        """A try to deliver an event, by one of TRY_OUTCOMES."""
        self.count(outcome)

    def exposition(self, samples: Iterable[Sample] = ()) -> str:
        """The Prometheus text format."""
        sums = [sum(self._cells[offset::_ROW][:_MOST_WORKERS]) for offset in range(_ROW)]
        lines = [
            "# HELP relaydeck_requests_total Requests answered, by route and status.",
            "# TYPE relaydeck_requests_total counter",
        ]
        for i, route in enumerate(ROUTES):
            for status, offset in _STATUS_OFFSET.items():
                if amount := sums[i * _PER_ROUTE + offset]:
                    lines.append(f'relaydeck_requests_total{{route="{route}",status="{status}"}} {amount}')
        lines += [
            "# HELP relaydeck_request_seconds Time from the request's arrival to its answer.",
            "# TYPE relaydeck_request_seconds histogram",
        ]
        for i, route in enumerate(ROUTES):
            lines += _histogram(route, sums[i * _PER_ROUTE + len(STATUSES) : (i + 1) * _PER_ROUTE])
        for name, meaning in COUNTERS.items():
            lines += _described(Sample(f"{name}_total", "counter", meaning, sums[_CELL_OFFSET[name]]))
        lines += [
            "# HELP relaydeck_event_tries_total Tries to deliver an event; dead is a failure that was the last.",
            "# TYPE relaydeck_event_tries_total counter",
        ]
        for outcome in TRY_OUTCOMES:
            lines.append(f'relaydeck_event_tries_total{{outcome="{outcome}"}} {sums[_CELL_OFFSET[outcome]]}')
        for name, meaning in GAUGES.items():
            lines += _described(Sample(name, "gauge", meaning, sums[_CELL_OFFSET[name]]))
        for sample in samples:
            lines += _described(sample)
        return "\n".join(lines) + "\n"


def _described(sample: Sample) -> list[str]:
    return [
        f"# HELP relaydeck_{sample.name} {sample.meaning}",
        f"# TYPE relaydeck_{sample.name} {sample.kind}",
        f"relaydeck_{sample.name} {sample.value}",
    ]


def _histogram(route: str, cells: list[int]) -> list[str]:
    *buckets, total_ns = cells
    if not any(buckets):
        return []
    lines, running = [], 0
    for bound, amount in zip((*(f"{ns / 1e9:g}" for ns in BUCKETS_NS), "+Inf"), buckets, strict=True):
        running += amount
        lines.append(f'relaydeck_request_seconds_bucket{{route="{route}",le="{bound}"}} {running}')
    lines.append(f'relaydeck_request_seconds_sum{{route="{route}"}} {total_ns / 1e9:.9f}')
    lines.append(f'relaydeck_request_seconds_count{{route="{route}"}} {running}')
    return lines
