"""Relayers as a check sees them: the record, its incident, and the nodes to ask."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import UNSET

from relaydeck.errors import Damaged
from relaydeck.networks import network_rows
from relaydeck.networks.model import RpcUrl, urls_from_json
from relaydeck.relayers import balance_rows, incidents, relayer_rows, runway_rows
from relaydeck.relayers.balance_rows import BalancePeriod
from relaydeck.relayers.incidents import Incident
from relaydeck.relayers.model import Relayer
from relaydeck.relayers.runway_rows import StoredRunway
from relaydeck.store.database import ReadRows, Row
from relaydeck.store.in_list import in_list
from relaydeck.store.vault import Vault

if TYPE_CHECKING:
    from relaydeck.networks.evm.pool import NodePool

GetPool = Callable[[tuple[RpcUrl, ...], int], Awaitable["NodePool"]]  # for URLs and a chain id
NetworkUrls = dict[tuple[str, bytes], tuple[RpcUrl, ...]]  # by network and sealed form
NONCE_SYNC_FAILED: Final = "NonceSyncFailed"

_relayer_columns = ", ".join(f"r.{name}" for name in relayer_rows.COLUMNS.split(", "))
_incident_columns = ", ".join(f"i.{name}" for name in incidents.COLUMNS.split(", "))
_SELECT = (
    f"SELECT {_relayer_columns}, {_incident_columns}, r.seq, r.revision, n.revision AS network_revision,"
    " n.chain_id, n.sealed_rpc_urls AS sealed_network_urls, n.secret_version AS network_secret_version,"
    " b.since AS balance_since, b.until AS balance_until, b.balance AS last_balance, b.spent AS last_spent,"
    " n.runway_warn_hours AS network_warn_hours,"
    " w.computed_at AS runway_computed_at, w.minimum_at, w.low_since AS runway_low_since"
    f" FROM relayers r JOIN networks n ON n.name = r.network LEFT JOIN {incidents.TABLE} i ON i.relayer_id = r.id"
    f" LEFT JOIN {balance_rows.TABLE} b ON b.relayer_seq = r.seq"
    f" AND b.since = (SELECT max(since) FROM {balance_rows.TABLE} WHERE relayer_seq = r.seq)"
    f" LEFT JOIN {runway_rows.TABLE} w ON w.relayer_seq = r.seq"
)


class RelayerSnapshot(NamedTuple):
    """A relayer as it was when its check began. `revisions` are its own and its network's."""

    sequence: int
    relayer: Relayer
    urls: tuple[RpcUrl, ...]
    chain_id: int
    revisions: tuple[int, int]
    incident: Incident
    last_balance: BalancePeriod | None = None  # the newest one in the history
    runway: StoredRunway = StoredRunway()
    network_warn_hours: int | None = None

    def warn_hours(self, default: int) -> int:
        """At how many hours of runway to warn."""
        if self.relayer.runway_warn_hours is not UNSET:
            return self.relayer.runway_warn_hours
        return default if self.network_warn_hours is None else self.network_warn_hours

    @property
    def disabled_by_monitor(self) -> bool:
        """Only such a relayer is enabled by the monitor."""
        reason = self.relayer.disabled_reason
        return self.relayer.system_disabled and reason is not UNSET and reason.type == NONCE_SYNC_FAILED


RelayerGroup = list[RelayerSnapshot]  # relayers with the same nodes


def read_relayers(read: ReadRows, vault: Vault, sequences: Sequence[int]) -> list[RelayerSnapshot]:
    """Those of the relayers that are not paused and have a readable RPC URL."""
    listed, values = in_list(sequences)
    rows = read(f"{_SELECT} WHERE r.seq IN ({listed}) AND NOT r.paused", values)
    opened: NetworkUrls = {}
    return [each for each in (_snapshot(row, vault, opened) for row in rows) if each.urls]


def group_by_nodes(relayers: Sequence[RelayerSnapshot], most: int) -> list[RelayerGroup]:
    """Relayers with the same nodes, at most so many in a group: one request can be about all of them."""
    by_nodes: dict[tuple[tuple[RpcUrl, ...], int], RelayerGroup] = defaultdict(list)
    for each in relayers:
        by_nodes[each.urls, each.chain_id].append(each)
    return [group[start : start + most] for group in by_nodes.values() for start in range(0, len(group), most)]


def find(read: ReadRows, vault: Vault, relayer_id: str) -> RelayerSnapshot | None:
    rows = read(f"{_SELECT} WHERE r.id = :id", {"id": relayer_id})
    return _snapshot(rows[0], vault, {}) if rows else None


def _snapshot(row: Row, vault: Vault, opened: NetworkUrls) -> RelayerSnapshot:
    """`opened` holds the URLs of networks that were opened before."""
    try:
        relayer = relayer_rows.from_row(row, vault)
        urls = relayer.custom_rpc_urls or _network_urls(row, relayer.network, vault, opened)
    except Damaged:
        relayer, urls = relayer_rows.without_urls(row), ()
    revisions = (row.revision, row.network_revision)
    return RelayerSnapshot(
        sequence=row.seq,
        relayer=relayer,
        urls=urls,
        chain_id=row.chain_id,
        revisions=revisions,
        incident=incidents.from_row(row),
        last_balance=_last_balance(row),
        runway=runway_rows.from_row(row),
        network_warn_hours=row.network_warn_hours,
    )


def _last_balance(row: Row) -> BalancePeriod | None:
    if row.balance_since is None:
        return None
    return BalancePeriod(row.balance_since, row.balance_until, int(row.last_balance), int(row.last_spent))


def _network_urls(row: Row, network: str, vault: Vault, opened: NetworkUrls) -> tuple[RpcUrl, ...]:
    if (sealed := row.sealed_network_urls) is None:
        return ()
    if (network, sealed) not in opened:
        place = network_rows.place(network, row.network_secret_version)
        opened[network, sealed] = urls_from_json(vault.open(sealed, place))
    return opened[network, sealed]
