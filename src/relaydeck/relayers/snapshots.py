"""Relayers as a check sees them: the record, the nodes to ask, and what earlier checks stored about it.

That is an open incident, one row for each relayer that has a problem and none for the others, and its forecast.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from relaydeck.errors import Damaged
from relaydeck.networks import network_rows
from relaydeck.networks.model import Network, RpcUrl
from relaydeck.relayers import balance_history, relayer_rows
from relaydeck.relayers.balance_history import BalancePeriod
from relaydeck.relayers.model import Relayer
from relaydeck.store.database import ReadRows, Row, Transaction
from relaydeck.store.rows import in_list, upsert_into
from relaydeck.store.vault import Vault

if TYPE_CHECKING:
    from relaydeck.networks.evm.pool import NodePool

GetPool = Callable[[tuple[RpcUrl, ...], Network], Awaitable["NodePool"]]  # for URLs of a network
NONCE_SYNC_FAILED: Final = "NonceSyncFailed"
INCIDENTS = "troubles"  # its first name: renaming a table would break the old processes of a rolling upgrade
RUNWAYS = "runways"


class NodeProblem(msgspec.Struct, frozen=True, array_like=True):
    """What was wrong with one node in a round, in our own words."""

    node: str  # scheme and host
    problem: str


class Incident(NamedTuple):
    """Times are seconds, the balance is Wei."""

    failed_rounds: int = 0
    failing_since: int | None = None
    evidence: tuple[NodeProblem, ...] = ()
    low_since: int | None = None
    balance: int | None = None
    checked_at: int = 0

    @property
    def is_over(self) -> bool:
        return not self.evidence and self.low_since is None


class StoredRunway(NamedTuple):
    """When the balance is expected to reach `min_balance`, and since when a warning is in force."""

    computed_at: int = 0
    minimum_at: int | None = None
    low_since: int | None = None


class RelayerSnapshot(NamedTuple):
    """A relayer as it was when its check began. `revisions` are its own and its network's."""

    sequence: int
    relayer: Relayer
    network: Network  # without its URLs if they are damaged
    urls: tuple[RpcUrl, ...]
    revisions: tuple[int, int]
    incident: Incident
    last_balance: BalancePeriod | None  # the newest one in the history
    runway: StoredRunway

    def warn_hours(self, default: int) -> int:
        """At how many hours of runway to warn."""
        if self.relayer.runway_warn_hours is not UNSET:
            return self.relayer.runway_warn_hours
        return default if self.network.runway_warn_hours is UNSET else self.network.runway_warn_hours

    @property
    def disabled_by_monitor(self) -> bool:
        """Only such a relayer is enabled by the monitor."""
        reason = self.relayer.disabled_reason
        return self.relayer.system_disabled and reason is not UNSET and reason.type == NONCE_SYNC_FAILED


RelayerGroup = list[RelayerSnapshot]  # relayers with the same nodes

INCIDENT_COLUMNS = ", ".join(f"i.{name}" for name in Incident._fields)
_relayer_columns = ", ".join(f"r.{name}" for name in relayer_rows.COLUMNS.split(", "))
_SELECT = (
    f"SELECT {_relayer_columns}, {INCIDENT_COLUMNS}, r.seq, r.revision, n.revision AS network_revision,"
    " b.since AS balance_since, b.until AS balance_until, b.balance AS last_balance, b.spent AS last_spent,"
    " w.computed_at AS runway_computed_at, w.minimum_at, w.low_since AS runway_low_since"
    f" FROM relayers r JOIN networks n ON n.name = r.network LEFT JOIN {INCIDENTS} i ON i.relayer_id = r.id"
    f" LEFT JOIN {balance_history.TABLE} b ON b.relayer_seq = r.seq"
    f" AND b.since = (SELECT max(since) FROM {balance_history.TABLE} WHERE relayer_seq = r.seq)"
    f" LEFT JOIN {RUNWAYS} w ON w.relayer_seq = r.seq"
)
_problems_from_json = msgspec.json.Decoder(tuple[NodeProblem, ...]).decode


def read_relayers(read: ReadRows, vault: Vault, sequences: Sequence[int]) -> list[RelayerSnapshot]:
    """Those of the relayers that are not paused and have a readable RPC URL."""
    listed, values = in_list(sequences)
    return [each for each in _read(read, vault, f"r.seq IN ({listed}) AND NOT r.paused", values) if each.urls]


def group_by_nodes(relayers: Sequence[RelayerSnapshot], most: int) -> list[RelayerGroup]:
    """Relayers with the same nodes, at most so many in a group: one request can be about all of them."""
    by_nodes: dict[tuple[tuple[RpcUrl, ...], str], RelayerGroup] = defaultdict(list)
    for each in relayers:
        by_nodes[each.urls, each.network.name].append(each)
    return [group[start : start + most] for group in by_nodes.values() for start in range(0, len(group), most)]


def find(read: ReadRows, vault: Vault, relayer_id: str) -> RelayerSnapshot | None:
    return next(iter(_read(read, vault, "r.id = :id", {"id": relayer_id})), None)


def _read(read: ReadRows, vault: Vault, where: str, values: Mapping[str, Any]) -> list[RelayerSnapshot]:
    """Networks are read after the revisions: with one that changed meanwhile, nothing is saved."""
    rows = read(f"{_SELECT} WHERE {where}", values)
    if not rows:
        return []
    listed, names = in_list(sorted({row.network for row in rows}))
    found = read(f"SELECT {network_rows.COLUMNS} FROM networks WHERE name IN ({listed})", names)
    networks = {row.name: _network(row, vault) for row in found}
    return [_snapshot(row, networks[row.network], vault) for row in rows if row.network in networks]


def _network(row: Row, vault: Vault) -> Network:
    try:
        return network_rows.from_row(row, vault)
    except Damaged:
        return network_rows.without_urls(row)


def _snapshot(row: Row, network: Network, vault: Vault) -> RelayerSnapshot:
    try:
        relayer = relayer_rows.from_row(row, vault)
        urls = relayer.custom_rpc_urls or network.rpc_urls
    except Damaged:
        relayer, urls = relayer_rows.without_urls(row), ()
    last_balance = None
    if row.balance_since is not None:
        last_balance = BalancePeriod(row.balance_since, row.balance_until, int(row.last_balance), int(row.last_spent))
    return RelayerSnapshot(
        sequence=row.seq,
        relayer=relayer,
        network=network,
        urls=urls,
        revisions=(row.revision, row.network_revision),
        incident=incident_from_row(row),
        last_balance=last_balance,
        runway=StoredRunway(row.runway_computed_at or 0, row.minimum_at, row.runway_low_since),
    )


def incident_from_row(row: Row) -> Incident:
    """From `INCIDENT_COLUMNS`, which are null for a relayer without an incident."""
    if row.failed_rounds is None:
        return Incident()
    balance = None if row.balance is None else int(row.balance)
    evidence = _problems_from_json(row.evidence)
    return Incident(row.failed_rounds, row.failing_since, evidence, row.low_since, balance, row.checked_at)


def save_incident(transaction: Transaction, relayer_id: str, incident: Incident) -> None:
    """Store the incident, or remove it when it is over."""
    if incident.is_over:
        transaction.execute(f"DELETE FROM {INCIDENTS} WHERE relayer_id = :relayer_id", {"relayer_id": relayer_id})
        return
    values = {
        "relayer_id": relayer_id,
        **incident._asdict(),
        "evidence": msgspec.json.encode(incident.evidence).decode(),
        "balance": None if incident.balance is None else str(incident.balance),
    }
    transaction.execute(upsert_into(INCIDENTS, "relayer_id", values), values)


def reset_rounds(transaction: Transaction, relayer_id: str) -> None:
    """Only consecutive rounds count: those before a pause do not count after it."""
    transaction.execute(f"UPDATE {INCIDENTS} SET failed_rounds = 0 WHERE relayer_id = :id", {"id": relayer_id})


def save_runway(transaction: Transaction, sequence: int, runway: StoredRunway) -> None:
    values = {"relayer_seq": sequence, **runway._asdict()}
    transaction.execute(upsert_into(RUNWAYS, "relayer_seq", values), values)
    transaction.mark(RUNWAYS)
