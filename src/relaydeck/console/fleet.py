"""What the overview shows: the fleet in numbers, and everything that needs attention."""

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from relaydeck.console.problems import RelayerProblem, read_problems
from relaydeck.console.receiver_problems import ReceiverProblem, read_receiver_problems
from relaydeck.notifications.deliveries import DeliveryCounts, count_deliveries
from relaydeck.relayers import incidents
from relaydeck.signers.check import SignerCheck
from relaydeck.store.database import ReadRows
from relaydeck.store.open_store import Store
from relaydeck.store.rows import columns_of
from relaydeck.timestamps import utc

_MOST_SHOWN = 20
_SLOW_SECONDS = 0.05
_KEPT_TIMES = 50  # numbers that took long to read are kept this many times as long


class NetworkCounts(NamedTuple):
    network: str
    total: int
    disabled: int
    paused: int

    @property
    def active(self) -> int:
        return self.total - self.disabled - self.paused


_columns = columns_of(
    NetworkCounts._fields,
    total="count(*)",
    disabled="coalesce(sum(CASE WHEN system_disabled THEN 1 ELSE 0 END), 0)",
    paused="coalesce(sum(CASE WHEN paused AND NOT system_disabled THEN 1 ELSE 0 END), 0)",
)
_COUNTS = f"SELECT {_columns} FROM relayers GROUP BY network ORDER BY network"


class SignerProblem(NamedTuple):
    signer_id: str
    outcome: str
    explanation: str
    since: str | None  # when it began to fail; None: before this was stored


class Fleet(NamedTuple):
    networks: list[NetworkCounts]
    problems: list[RelayerProblem]
    troubled: int  # relayers with an open incident
    signers: list[SignerProblem]
    receivers: list[ReceiverProblem]  # with deliveries that wait after a failed attempt
    deliveries: DeliveryCounts

    def total(self, state: str) -> int:
        return sum(getattr(each, state) for each in self.networks)


class FleetReader:
    """Counting a million relayers takes long, so that the counts are kept for a multiple of that time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: list[NetworkCounts] = []
        self._fresh_until = 0.0

    def read(self, store: Store) -> Fleet:
        read = store.database.read
        troubled: int = read(f"SELECT count(*) AS total FROM {incidents.TABLE}", {})[0].total
        return Fleet(
            self._read_counts(read),
            read_problems(read),
            troubled,
            _signer_problems(read),
            read_receiver_problems(read, _MOST_SHOWN),
            count_deliveries(read),
        )

    def _read_counts(self, read: ReadRows) -> list[NetworkCounts]:
        began = self._clock()
        if began >= self._fresh_until:
            self._counts = [NetworkCounts(*row) for row in read(_COUNTS, {})]
            took = self._clock() - began
            self._fresh_until = began + (took * _KEPT_TIMES if took > _SLOW_SECONDS else 0.0)
        return self._counts


def _signer_problems(read: ReadRows) -> list[SignerProblem]:
    rows = read(
        "SELECT result FROM signer_checks WHERE outcome <> 'ok' ORDER BY checked_at DESC LIMIT :most",
        {"most": _MOST_SHOWN},
    )
    checks = [msgspec.json.decode(row.result, type=SignerCheck) for row in rows]
    return [SignerProblem(each.signer_id, each.outcome, each.explanation, utc(each.failing_since)) for each in checks]
