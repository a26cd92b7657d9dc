"""What each request leaves behind: gathered while requests are answered, logged and counted in batches."""

import asyncio
from collections import defaultdict

from relaydeck.http.metrics import Metrics
from relaydeck.log import Log, Record

_GATHER_SECONDS = 0.05


class RequestRecords:
    def __init__(self, log: Log, metrics: Metrics, loop: asyncio.AbstractEventLoop) -> None:
        self._log = log
        self._metrics = metrics
        self._loop = loop
        self._gathered: list[Record] = []

    def add(self, record: Record) -> None:
        if not self._gathered:
            self._loop.call_later(_GATHER_SECONDS, self.flush)
        self._gathered.append(record)

    def flush(self) -> None:
        records, self._gathered = self._gathered, []
        by_route: dict[str, list[Record]] = defaultdict(list)
        for record in records:
            by_route[record[1]].append(record)
        for route, its_records in by_route.items():
            self._metrics.requests(route, its_records)
        self._log.requests(records)

    def count_unexpected(self) -> None:
        self._metrics.count("unexpected_failures")
