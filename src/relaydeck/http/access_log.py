"""The record of each request: collected while requests are served, then logged and counted in batches."""

import asyncio
import json
from collections import Counter, defaultdict
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from relaydeck.http.metric_counts import Metrics
from relaydeck.http.metrics import STORED_BYTES, STORING_ROUTES, UNEXPECTED_FAILURES
from relaydeck.http.request import ClientAddress, Peer
from relaydeck.log import Log
from relaydeck.settings.model import Settings
from relaydeck.timestamps import utc_with_milliseconds

_BATCH_SECONDS = 0.05
_BATCH_RECORDS = 64  # few enough to be still in the processor's cache when they are written

# moment, route, status, nanoseconds taken, request id, token name as JSON, peer, X-Forwarded-For, reason, bytes of body
Record = tuple[float, str, int, int, bytes, str, Peer, bytes | None, str, int]
_outcome, _taken, _token, _size = itemgetter(1, 2), itemgetter(3), itemgetter(5), itemgetter(9)
_STORED = {(route, status) for route in STORING_ROUTES for status in (200, 201)}
_MUCH_BYTES = 16 * 1024 * 1024  # of one token within a minute: some ten thousand signers
_MINUTE = 60.0
_MOST_USES = 100_000  # tokens between two times that their uses are stored
ANONYMOUS = '"-"'


class Use(NamedTuple):
    minute: int
    place: str  # the interface and the address


class AccessLog:
    def __init__(self, log: Log, metrics: Metrics, clients: ClientAddress, loop: asyncio.AbstractEventLoop) -> None:
        self._log = log
        self._metrics = metrics
        self.client_of = clients.address_of
        self._loop = loop
        self._records: list[Record] = []
        self._scheduled = False
        self._growth: Counter[str] = Counter()  # bytes of each token, as JSON, in a minute since `_growth_since`
        self._growth_since = 0.0
        # By the names of tokens, as JSON: the latest minute in which each was used, by which interface and from where.
        self.uses: dict[str, Use] = {}

    def add(self, record: Record) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_later(_BATCH_SECONDS, self._flush_on_time)
        self._records.append(record)
        if len(self._records) == _BATCH_RECORDS:
            self.flush()

    def _flush_on_time(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        records, self._records = self._records, []
        logs, lines = self._log.logs("info"), []
        durations: dict[tuple[str, int], list[int]] = defaultdict(list)
        for outcome, run in groupby(records, _outcome):  # as a rule many requests in a row are alike
            batch = list(run)
            durations[outcome] += map(_taken, batch)
            if outcome in _STORED:
                self._count_stored(outcome[0], batch)
            if logs:
                lines += self._json_lines(batch, *outcome) if self._log.as_json else self._text_lines(batch)
        if lines:
            self._log.add("".join(lines))
        for (route, status), nanoseconds in durations.items():
            self._metrics.requests(route, status, nanoseconds)
        for token, record in dict(zip(map(_token, records), records, strict=True)).items():
            self._note_use(token, record)

    def _note_use(self, token: str, record: Record) -> None:
        minute = int(record[0]) // 60 * 60
        if token == ANONYMOUS or ((last := self.uses.get(token)) is not None and last.minute == minute):
            return
        if len(self.uses) < _MOST_USES:
            interface = record[1] if record[1] in ("admin", "console") else "api"
            self.uses[token] = Use(minute, f"{interface} {self.client_of(record[6], record[7])}")

    def taken_uses(self) -> dict[str, Use]:
        """Those since the last call, to be stored. What one token does is noted again from its next minute on."""
        uses, self.uses = self.uses, {}
        return uses

    def _json_lines(self, records: list[Record], route: str, status: int) -> list[str]:
        # Inline instead of in functions: this runs for every request. What a line has in common with the one before it,
        # usually all but its id and its duration, is not formatted again.
        lines, stamped_from, stamped_until = [], 0.0, 0.0
        start, middle, end, plain_end = "", f'","route":"{route}","status":{status},"duration_us":', "", ""
        of_token, of_client = "", ""
        for moment, _, _, taken, request_id, token, peer, forwarded, reason, _ in records:
            if not stamped_from <= moment < stamped_until:
                millisecond = int(moment * 1000)
                stamp = utc_with_milliseconds(millisecond)
                stamped_from, stamped_until = millisecond / 1000, (millisecond + 1) / 1000
                start = f'{{"time":"{stamp}","level":"info","event":"request","request_id":"'
            client = peer[0] if forwarded is None and peer else self.client_of(peer, forwarded)
            if token != of_token or client != of_client:
                of_token, of_client = token, client
                end = f',"token":{token},"client":"{client}"'
                plain_end = f"{end}}}\n"
            line_end = f'{end},"reason":{json.dumps(reason)}}}\n' if reason else plain_end
            lines.append(f"{start}{request_id.decode()}{middle}{taken // 1000}{line_end}")
        return lines

    def _text_lines(self, records: list[Record]) -> list[str]:
        return [
            f"{utc_with_milliseconds(int(moment * 1000))} info request {route} {status} {taken // 1000}us token={token}"
            f" client={self.client_of(peer, forwarded)} id={request_id.decode()}{f' ({reason})' if reason else ''}\n"
            for moment, route, status, taken, request_id, token, peer, forwarded, reason, _ in records
        ]

    def _count_stored(self, route: str, records: list[Record]) -> None:
        """Count what changed records, and say once a minute which token stores much."""
        self._metrics.count(STORED_BYTES, route, by=sum(map(_size, records)))
        if records[-1][0] - self._growth_since >= _MINUTE:
            self._growth_since = records[-1][0]
            self._growth.clear()
        for token, run in groupby(records, _token):
            before = self._growth[token]
            self._growth[token] = after = before + sum(map(_size, run))
            if before < _MUCH_BYTES <= after:
                much = f"more than {_MUCH_BYTES} bytes in a minute"
                self._log.event(
                    "warning", "a token stores much: see 'relaydeck doctor'", token=json.loads(token), stored=much
                )

    def count_unexpected(self) -> None:
        self._metrics.count(UNEXPECTED_FAILURES)


def open_access_log(settings: Settings, log: Log, metrics: Metrics) -> AccessLog:
    """The access log of the running event loop."""
    return AccessLog(log, metrics, ClientAddress(settings.trusted_proxies), asyncio.get_running_loop())
