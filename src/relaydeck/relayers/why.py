"""Explains the state of a relayer: what the monitor has stored, and what its nodes answer now. Only reads."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import msgspec

from relaydeck.errors import RelayerNotFound
from relaydeck.fields import own_field as field
from relaydeck.notifications.model import EventKind
from relaydeck.quantities import Moment, Whole
from relaydeck.relayers import snapshots
from relaydeck.relayers.snapshots import GetPool, NodeProblem, RelayerSnapshot
from relaydeck.scheduling.schedule import next_check_at
from relaydeck.store.database import ReadRows
from relaydeck.store.vault import Vault
from relaydeck.timestamps import utc

if TYPE_CHECKING:
    from relaydeck.networks.evm.node import Fault
    from relaydeck.networks.evm.node_health import Evidence

StateName = Literal[
    "paused", "disabled", "failing", "low_balance", "low_runway", "signer_unreachable", "signer_mismatch"
]


class RelayerState(msgspec.Struct, frozen=True, kw_only=True):
    state: Annotated[StateName, field("What is wrong.", example="disabled")]
    since: Annotated[
        Moment | None,
        field("Since when, in UTC; null: since it was created.", example="2026-03-01T12:02:07Z"),
    ]
    by: Annotated[str | None, field("Who: `token:NAME`, `cli:USER` or `monitor`.", example="monitor")]
    cause: Annotated[
        str,
        field(
            "Why, and what to do.",
            example="NonceSyncFailed: no RPC URL returned the nonce of 0x2c7536E3605D9C16a7a3D7b1898e529396a65c23 in "
            "3 rounds since 2026-03-01T12:00:07Z: https://node.example.com refused the connection.",
        ),
    ]


class RelayerNode(msgspec.Struct, frozen=True, kw_only=True):
    node: Annotated[
        str,
        field("Scheme and host of the RPC URL; the rest may be a secret.", example="https://node.example.com"),
    ]
    weight: Annotated[Whole, field("Its share of the calls.", example=1)]
    ok: Annotated[bool, field("Whether it answered just now, on the right chain.", example=True)]
    problem: Annotated[str | None, field("What was wrong just now.", example=None)]
    chain_id: Annotated[Whole | None, field("The chain id it returned.", example=11_155_111)]
    block: Annotated[Whole | None, field("The newest block it returned.", example=4_321_987)]
    blocks_behind: Annotated[
        Whole | None,
        field("How many blocks that is behind the newest of the nodes that are ok; null for another.", example=0),
    ]
    milliseconds: Annotated[Whole, field("How long that took.", example=38)]
    last_fault: Annotated[
        str | None,
        field("What last went wrong with it, in any worker; it may be over.", example="timed out"),
    ]
    last_fault_at: Annotated[Moment | None, field("When, in UTC.", example="2026-03-01T12:13:55Z")]
    last_problem: Annotated[
        str | None,
        field(
            "What the monitor saw in the last round without a nonce; null when that is over.",
            example="refused the connection",
        ),
    ]
    last_problem_at: Annotated[Moment | None, field("When, in UTC.", example="2026-03-01T12:14:07Z")]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[str, field("Identifier of the relayer.", example="sepolia-1")]
    address: Annotated[str, field("Its address.", example="0x2c7536E3605D9C16a7a3D7b1898e529396a65c23")]
    network: Annotated[str, field("Its network.", example="sepolia")]
    states: Annotated[tuple[RelayerState, ...], field("Everything that is wrong; empty when nothing is.")]
    nodes: Annotated[tuple[RelayerNode, ...], field("Each of its RPC URLs, called just now.")]
    monitor: Annotated[str, field("What the monitor does about it.", example="checks every 60 s")]
    next_probe_at: Annotated[
        Moment | None,
        field("When the monitor checks it next, approximately, in UTC.", example="2026-03-01T12:15:07Z"),
    ]
    signer_check: Annotated[
        str | None,
        field(
            "The latest check of its signer; null: none yet.",
            example="ok: the key signed a challenge, and its address matches the one relayer that uses this signer"
            " (checked 2026-03-01T12:00:00Z)",
        ),
    ] = None


class StoredState(NamedTuple):
    """What is stored about a relayer, as of one moment."""

    snapshot: RelayerSnapshot
    states: tuple[RelayerState, ...]  # that need attention, the operator's own first


def read(read_rows: ReadRows, vault: Vault, relayer_id: str, rounds: int) -> StoredState:
    """Raises RelayerNotFound."""
    snapshot = snapshots.find(read_rows, vault, relayer_id)
    if snapshot is None:
        raise RelayerNotFound(relayer_id)
    return StoredState(snapshot, tuple(_read_states(read_rows, snapshot, rounds)))


def _read_states(read_rows: ReadRows, snapshot: RelayerSnapshot, rounds: int) -> Iterator[RelayerState]:
    relayer, incident = snapshot.relayer, snapshot.incident
    if relayer.paused:
        since, by = last_action(read_rows, relayer.id, EventKind.RELAYER_PAUSED.value)
        cause = "an operator paused it; its nodes are not checked until it is resumed"
        yield RelayerState(state="paused", since=since, by=by, cause=cause)
    if relayer.system_disabled:
        since, by = last_action(read_rows, relayer.id, EventKind.RELAYER_DISABLED.value)
        reason = relayer.disabled_reason
        cause = f"{reason.type}: {reason.details}" if reason else "the reason is not known"
        yield RelayerState(state="disabled", since=since, by=by, cause=cause)
    elif incident.failed_rounds:
        cause = f"no RPC URL answered in {incident.failed_rounds} of {rounds} rounds; after {rounds} it is disabled"
        yield RelayerState(state="failing", since=utc(incident.failing_since), by="monitor", cause=cause)
    if incident.low_since is not None:
        balance = snapshot.last_balance.balance if snapshot.last_balance else incident.balance
        cause = f"its balance is {balance} Wei, and its minimum is {relayer.policies.min_balance} Wei"
        yield RelayerState(state="low_balance", since=utc(incident.low_since), by="monitor", cause=cause)
    if (low_since := snapshot.runway.low_since) is not None:
        minimum_at = snapshot.runway.minimum_at
        cause = f"its balance is expected to reach its minimum {f'at {utc(minimum_at)}' if minimum_at else 'soon'}"
        if snapshot.last_balance and snapshot.last_balance.balance <= relayer.policies.min_balance:
            cause = "its balance has reached its minimum"
        yield RelayerState(state="low_runway", since=utc(low_since), by="monitor", cause=cause)


def last_action(read_rows: ReadRows, record: str, action: str) -> tuple[str | None, str | None]:
    """When it was last done to a record, and by whom; both are None when the audit log does not show it."""
    rows = read_rows(
        "SELECT moment, actor FROM audit WHERE record = :id AND action = :action ORDER BY seq DESC LIMIT 1",
        {"id": record, "action": action},
    )
    return (utc(rows[0].moment), rows[0].actor) if rows else (None, None)


async def explain(
    stored: StoredState,
    pool: GetPool,
    *,
    interval: float,
    now: float,
    probe: bool = True,
    seen: "Mapping[str, Fault] | None" = None,
) -> Explanation:
    """Probes every URL once, now, whatever its last result was. Without `probe` it shows what is stored, at once.

    `seen`: the last faults that the workers of this home saw. A command has just started, and a worker knows only its
    own calls.
    """
    snapshot = stored.snapshot
    evidence: Sequence[Evidence] = ()
    faults: Sequence[Fault | None] = ()
    if snapshot.urls and probe:
        nodes = await pool(snapshot.urls, snapshot.network)
        evidence = await nodes.probe_each()
        faults = nodes.last_faults(seen or {})
    is_checked = bool(interval and snapshot.urls and not snapshot.relayer.paused)
    return Explanation(
        id=snapshot.relayer.id,
        address=snapshot.relayer.address,
        network=snapshot.relayer.network,
        states=stored.states,
        nodes=tuple(_nodes(snapshot, evidence, faults)) if evidence else (),
        monitor=_monitor(snapshot, interval),
        next_probe_at=utc(next_check_at(snapshot.sequence, interval, now)) if is_checked else None,
    )


def _nodes(
    snapshot: RelayerSnapshot, evidence: "Sequence[Evidence]", faults: "Sequence[Fault | None]"
) -> list[RelayerNode]:
    checked_at = utc(snapshot.incident.checked_at)
    # A URL on another chain has blocks of its own: neither do they count, nor is it behind.
    newest = max((each.block or 0 for each in evidence if each.ok), default=0)
    return [
        RelayerNode(
            node=each.node,
            weight=url.weight,
            ok=each.ok,
            problem=each.error or None,
            chain_id=each.chain_id,
            block=each.block,
            blocks_behind=newest - each.block if each.ok and each.block is not None else None,
            milliseconds=round(each.seconds * 1000),
            last_fault=fault.reason if fault else None,
            last_fault_at=utc(fault.at) if fault else None,
            last_problem=last.problem if last else None,
            last_problem_at=checked_at if last else None,
        )
        for url, each, fault, last in zip(
            snapshot.urls, evidence, faults, _last_problems(snapshot, evidence), strict=True
        )
    ]


def _last_problems(snapshot: RelayerSnapshot, evidence: "Sequence[Evidence]") -> list[NodeProblem | None]:
    """Matched by position when the URLs are the same: two URLs of one host look alike without their secret parts."""
    stored = snapshot.incident.evidence
    if [each.node for each in stored] == [each.node for each in evidence]:
        return list(stored)
    by_node = {each.node: each for each in reversed(stored)}
    return [by_node.get(each.node) for each in evidence]


def _monitor(snapshot: RelayerSnapshot, interval: float) -> str:
    if not interval:
        return "off: RELAYDECK_MONITOR_INTERVAL_SECONDS is 0"
    if snapshot.relayer.paused:
        return "does not check this relayer until it is resumed"
    if not snapshot.urls:
        return "does not check this relayer: neither it nor its network has a readable RPC URL"
    return f"checks every {interval:g} s"
