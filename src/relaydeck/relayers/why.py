"""Explains the state of a relayer: what the monitor has stored, and what its nodes answer now. Only reads."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from relaydeck.errors import RelayerNotFound
from relaydeck.notifications.kinds import EventKind
from relaydeck.relayers import snapshots
from relaydeck.relayers.explanation import Explanation, RelayerNode, RelayerState, StateName
from relaydeck.relayers.incidents import NodeProblem
from relaydeck.relayers.snapshots import GetPool, RelayerSnapshot
from relaydeck.store.database import ReadRows
from relaydeck.store.schedule import next_check_at
from relaydeck.store.vault import Vault
from relaydeck.timestamps import utc

if TYPE_CHECKING:
    from relaydeck.networks.evm.node import Fault
    from relaydeck.networks.evm.probe import Evidence

_ACTIONS = {"paused": EventKind.RELAYER_PAUSED.value, "disabled": EventKind.RELAYER_DISABLED.value}


class LastAction(NamedTuple):
    """When a relayer was last paused or disabled, and by whom. Both are None when the audit log does not show it."""

    moment: int | None = None
    actor: str | None = None


class StoredState(NamedTuple):
    """What is stored about a relayer, as of one moment."""

    snapshot: RelayerSnapshot
    last_actions: dict[str, LastAction]


def read(read_rows: ReadRows, vault: Vault, relayer_id: str) -> StoredState:
    """Raises RelayerNotFound."""
    snapshot = snapshots.find(read_rows, vault, relayer_id)
    if snapshot is None:
        raise RelayerNotFound(relayer_id)
    states = {"paused": snapshot.relayer.paused, "disabled": snapshot.relayer.system_disabled}
    actions = {state: _last_action(read_rows, relayer_id, _ACTIONS[state]) for state, holds in states.items() if holds}
    return StoredState(snapshot, actions)


def _last_action(read_rows: ReadRows, relayer_id: str, action: str) -> LastAction:
    rows = read_rows(
        "SELECT moment, actor FROM audit WHERE record = :id AND action = :action ORDER BY seq DESC LIMIT 1",
        {"id": relayer_id, "action": action},
    )
    return LastAction(rows[0].moment, rows[0].actor) if rows else LastAction()


async def explain(
    stored: StoredState,
    pool: GetPool,
    *,
    interval: float,
    rounds: int,
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
        nodes = await pool(snapshot.urls, snapshot.chain_id)
        evidence = await nodes.probe_each()
        faults = nodes.last_faults(seen or {})
    is_checked = bool(interval and snapshot.urls and not snapshot.relayer.paused)
    return Explanation(
        id=snapshot.relayer.id,
        address=snapshot.relayer.address,
        network=snapshot.relayer.network,
        states=tuple(states_of(stored, rounds)),
        nodes=tuple(_nodes(snapshot, evidence, faults)) if evidence else (),
        monitor=_monitor(snapshot, interval),
        next_probe_at=utc(next_check_at(snapshot.sequence, interval, now)) if is_checked else None,
    )


def states_of(stored: StoredState, rounds: int) -> list[RelayerState]:
    """Every state that needs attention, the operator's own first; empty when there is none."""
    relayer, incident = stored.snapshot.relayer, stored.snapshot.incident
    found = []
    if relayer.paused:
        cause = "an operator paused it; its nodes are not checked until it is resumed"
        found.append(_state("paused", stored.last_actions["paused"], cause))
    if relayer.system_disabled:
        reason = relayer.disabled_reason
        cause = f"{reason.type}: {reason.details}" if reason else "the reason is not known"
        found.append(_state("disabled", stored.last_actions["disabled"], cause))
    elif incident.failed_rounds:
        cause = f"no RPC URL answered in {incident.failed_rounds} of {rounds} rounds; after {rounds} it is disabled"
        found.append(_state("failing", LastAction(incident.failing_since, "monitor"), cause))
    if incident.low_since is not None:
        cause = f"its balance was {incident.balance} Wei, and min_balance is {relayer.policies.min_balance} Wei"
        found.append(_state("low_balance", LastAction(incident.low_since, "monitor"), cause))
    if (low_since := stored.snapshot.runway.low_since) is not None:
        cause = f"its balance is expected to reach min_balance soon: 'relaydeck relayer fuel {relayer.id}' shows when"
        found.append(_state("low_runway", LastAction(low_since, "monitor"), cause))
    return found


def _state(state: StateName, action: LastAction, cause: str) -> RelayerState:
    return RelayerState(state=state, since=utc(action.moment), by=action.actor, cause=cause)


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
