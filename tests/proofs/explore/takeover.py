"""Another process takes over while the one under test hangs: what that one may not do any more."""

from collections.abc import Iterator
from typing import NamedTuple

from relaydeck.relayers.monitor import SHARDS
from relaydeck.scheduling.leases import ShardLeases
from relaydeck.store.database import ReadRows, Transaction
from relaydeck.store.open_store import Store

_OTHER = "another process"
LEASE_SECONDS = 1000.0  # of the process under test: its lease does not expire by itself
_LONGER = 9000.0  # than all rounds of a run; less than what a lease takes for absurd
_HELD = "SELECT count(*) AS held FROM leases WHERE holder = :holder"
_CLAIMED = "SELECT count(*) AS held FROM deliveries WHERE claimed_by = :holder AND state = 'pending'"
_RESULTS = {
    "monitor": "SELECT count(*) AS saved FROM events",
    "delivery": "SELECT count(*) AS saved FROM attempts",
}
_CLAIM = "UPDATE deliveries SET claimed_by = :holder, claimed_until = :until WHERE state = 'pending'"


class Takeover(NamedTuple):
    work: str
    is_remote: bool
    held: int  # leases, or claims of deliveries
    saved: int  # results

    def problems(self, store: Store) -> Iterator[str]:
        if _saved(store.database.read, self.work) > self.saved:
            yield "a result was saved after another process took over"
        if _held(store.database.read, self.work, is_remote=self.is_remote) < self.held:
            yield "the lease of another process was released or taken"


def take_over(transaction: Transaction, work: str, *, is_remote: bool) -> Takeover | None:
    """As if the leases of all others had expired. Each has its own fence from now on.

    None: there was nothing to take over at this call.
    """
    transaction.execute("UPDATE leases SET expires_at = 0")
    if work == "monitor":
        ShardLeases("monitor", SHARDS, _LONGER, holder=_OTHER)._claim(transaction)
    elif is_remote:
        transaction.execute(_CLAIM, {"holder": _OTHER, "until": 1 << 60})
    else:
        ShardLeases("delivery", 1, _LONGER, holder=_OTHER)._claim(transaction)
    held = _held(transaction.all, work, is_remote=is_remote)
    return Takeover(work, is_remote, held, _saved(transaction.all, work)) if held else None


def _held(read: ReadRows, work: str, *, is_remote: bool) -> int:
    sql = _CLAIMED if is_remote and work == "delivery" else _HELD
    held: int = read(sql, {"holder": _OTHER})[0].held
    return held


def _saved(read: ReadRows, work: str) -> int:
    saved: int = read(_RESULTS[work], {})[0].saved
    return saved
