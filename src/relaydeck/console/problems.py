"""What is wrong with relayers right now. Relayers with the same problem are one entry, so that its cause stands out."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from relaydeck.relayers import incidents
from relaydeck.relayers.incidents import Incident
from relaydeck.relayers.model import DisabledReason, Policies
from relaydeck.store.database import Row
from relaydeck.timestamps import utc

ReadRows = Callable[[str, dict[str, Any]], list[Row]]
ProblemState = Literal["disabled", "failing", "low_balance"]
_MOST_READ = 1000
_MOST_NAMED = 3
_WORST_FIRST: tuple[ProblemState, ...] = ("disabled", "failing", "low_balance")
_columns = ", ".join(f"t.{name}" for name in incidents.COLUMNS.split(", "))
# Of a paused relayer only that it is disabled: its nodes and its balance are not checked.
_SELECT = (
    f"SELECT r.id, r.name, r.network, r.paused, r.system_disabled, r.disabled_reason, r.policies, n.native_symbol,"
    f" {_columns} FROM {incidents.TABLE} t JOIN relayers r ON r.id = t.relayer_id JOIN networks n ON n.name = r.network"
    " WHERE r.system_disabled OR NOT r.paused ORDER BY coalesce(t.failing_since, t.low_since, 0), r.seq LIMIT :most"
)


class Balance(NamedTuple):
    """A balance below its limit, in Wei."""

    balance: int
    minimum: int
    symbol: str


class RelayerProblem(NamedTuple):
    state: ProblemState
    network: str
    cause: str  # empty: see `low`
    low: Balance | None
    since: str | None  # the earliest
    relayers: tuple[tuple[str, str], ...]  # id and name of the first
    total: int


def read_problems(read: ReadRows) -> list[RelayerProblem]:
    """The worst first, and what affects most relayers before the rest."""
    grouped: dict[tuple[ProblemState, str, str, Balance | None], list[Row]] = {}
    for row in read(_SELECT, {"most": _MOST_READ}):
        for state, cause, low in _problems_of(row):
            grouped.setdefault((state, row.network, cause, low), []).append(row)
    found = [_group(*key, rows) for key, rows in grouped.items()]
    return sorted(found, key=lambda each: (_WORST_FIRST.index(each.state), -each.total))


def _problems_of(row: Row) -> Iterator[tuple[ProblemState, str, Balance | None]]:
    incident = incidents.from_row(row)
    if row.system_disabled:
        yield "disabled", _cause(incident, row), None
    elif incident.failed_rounds:
        yield "failing", _cause(incident, row), None
    if incident.low_since is not None and incident.balance is not None and not row.paused:
        minimum = msgspec.json.decode(row.policies, type=Policies).min_balance
        yield "low_balance", "", Balance(incident.balance, minimum, row.native_symbol)


def _cause(incident: Incident, row: Row) -> str:
    if incident.evidence:
        return "; ".join(f"{each.node} {each.problem}" for each in incident.evidence)
    return msgspec.json.decode(row.disabled_reason, type=DisabledReason).details if row.disabled_reason else "not known"


def _group(state: ProblemState, network: str, cause: str, low: Balance | None, rows: list[Row]) -> RelayerProblem:
    moments = [row.low_since if state == "low_balance" else row.failing_since for row in rows]
    since = min((each for each in moments if each is not None), default=None)
    named = tuple((row.id, row.name) for row in rows[:_MOST_NAMED])
    return RelayerProblem(state, network, cause, low, utc(since), named, len(rows))
