"""Why a relayer is in the state it is in: what the monitor remembers, beside what its nodes do now. Only reads."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from relaydeck.errors import RelayerNotFound
from relaydeck.networks.model import RpcUrl
from relaydeck.notifications.kinds import EventKind
from relaydeck.relayers import health
from relaydeck.relayers.explanation import Explanation, RelayerNode, RelayerState, StateName
from relaydeck.relayers.health import Watched
from relaydeck.relayers.schedule import next_look
from relaydeck.relayers.troubles import ReadRows
from relaydeck.store.vault import Vault

if TYPE_CHECKING:
    from relaydeck.networks.evm.pool import NodePool
    from relaydeck.networks.evm.probing import Evidence

GetPool = Callable[[tuple[RpcUrl, ...], int], Awaitable["NodePool"]]
_DEEDS = {"paused": EventKind.RELAYER_PAUSED.value, "disabled": EventKind.RELAYER_DISABLED.value}


class AuditEntry(NamedTuple):
    """When something was last done to a relayer, and by whom; neither is known of one that came so."""

    moment: int | None = None
    actor: str | None = None


class Known(NamedTuple):
    """What is stored of a relayer, as of one moment."""

    watched: Watched
    deeds: dict[str, AuditEntry]


def read(read_rows: ReadRows, vault: Vault, relayer_id: str) -> Known:
    """Raises RelayerNotFound."""
    watched = health.find(read_rows, vault, relayer_id)
    if watched is None:
        raise RelayerNotFound(relayer_id)
    present = {"paused": watched.relayer.paused, "disabled": watched.relayer.system_disabled}
    deeds = {state: _last_deed(read_rows, relayer_id, _DEEDS[state]) for state, there in present.items() if there}
    return Known(watched, deeds)


def _last_deed(read_rows: ReadRows, relayer_id: str, action: str) -> AuditEntry:
    rows = read_rows(
        "SELECT moment, actor FROM audit WHERE record = :id AND action = :action ORDER BY seq DESC LIMIT 1",
        {"id": relayer_id, "action": action},
    )
    return AuditEntry(*rows[0]) if rows else AuditEntry()


async def explained(known: Known, pool: GetPool, *, interval: float, rounds: int, now: float) -> Explanation:
    """Every URL is asked once, now, whatever came of it before."""
    watched = known.watched
    seen: Sequence[Evidence] = ()
    if watched.urls:
        seen = await (await pool(watched.urls, watched.chain_id)).probe_each()
    probed = bool(interval and watched.urls and not watched.relayer.paused)
    return Explanation(
        id=watched.relayer.id,
        address=watched.relayer.address,
        network=watched.relayer.network,
        states=tuple(_states(known, rounds)),
        nodes=tuple(_nodes(watched, seen)),
        monitor=_monitor(watched, interval),
        next_probe_at=_stamp(next_look(watched.sequence, interval, now)) if probed else None,
    )


def _states(known: Known, rounds: int) -> list[RelayerState]:
    """Everything that is wrong, most deliberate first; empty when the relayer is well."""
    relayer, trouble = known.watched.relayer, known.watched.trouble
    found = []
    if relayer.paused:
        cause = "it was paused; until it is resumed nobody looks at its nodes"
        found.append(_state("paused", known.deeds["paused"], cause))
    if relayer.system_disabled:
        reason = relayer.disabled_reason
        cause = f"{reason.type}: {reason.details}" if reason else "the reason is not known"
        found.append(_state("disabled", known.deeds["disabled"], cause))
    elif trouble.failed_rounds:
        cause = f"no RPC URL answered in {trouble.failed_rounds} of {rounds} rounds; after {rounds} it is disabled"
        found.append(_state("failing", AuditEntry(trouble.failing_since, "monitor"), cause))
    if trouble.low_since is not None:
        cause = f"its balance was {trouble.balance} Wei, and min_balance is {relayer.policies.min_balance} Wei"
        found.append(_state("low_balance", AuditEntry(trouble.low_since, "monitor"), cause))
    return found


def _state(state: StateName, deed: AuditEntry, cause: str) -> RelayerState:
    return RelayerState(state=state, since=_stamp(deed.moment), by=deed.actor, cause=cause)


def _nodes(watched: Watched, seen: "Sequence[Evidence]") -> list[RelayerNode]:
    """What the monitor saw is told by place: two URLs of one host look alike without their secret parts."""
    remarks = watched.trouble.evidence
    alike = [each.node for each in remarks] == [each.node for each in seen]
    found = []
    for place, (url, each) in enumerate(zip(watched.urls, seen, strict=True)):
        remark = remarks[place] if alike else next((r for r in remarks if r.node == each.node), None)
        node = RelayerNode(
            node=each.node,
            weight=url.weight,
            ok=each.ok,
            problem=each.error or None,
            chain_id=each.chain_id,
            block=each.block,
            milliseconds=round(each.seconds * 1000),
            last_problem=remark.problem if remark else None,
            last_problem_at=_stamp(watched.trouble.checked_at) if remark else None,
        )
        found.append(node)
    return found


def _monitor(watched: Watched, interval: float) -> str:
    if not interval:
        return "off: RELAYDECK_MONITOR_INTERVAL_SECONDS is 0"
    if watched.relayer.paused:
        return "waits until the relayer is resumed"
    if not watched.urls:
        return "has nothing to ask: neither the relayer nor its network has an RPC URL that can be read"
    return f"looks every {interval:g} s"


def _stamp(moment: float | None) -> str | None:
    return None if moment is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
