"""What a look at a relayer means for it: judged, and written down with its events in one transaction."""

import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from relaydeck.networks import network_rows
from relaydeck.networks.model import RpcUrl
from relaydeck.notifications.kinds import EventKind
from relaydeck.relayers import relayer_changes, relayer_rows, troubles
from relaydeck.relayers.model import DisabledReason, Relayer
from relaydeck.relayers.troubles import CheckResult, ReadRows, Trouble
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Row
from relaydeck.store.sealing import Damaged
from relaydeck.store.vault import Vault

NONCE_SYNC_FAILED: Final = "NonceSyncFailed"
_MOST_TOLD = 8  # URLs in a reason

_relayer_columns = ", ".join(f"r.{name}" for name in relayer_rows.COLUMNS.split(", "))
_trouble_columns = ", ".join(f"t.{name}" for name in troubles.COLUMNS.split(", "))
_DUE = (
    f"SELECT {_relayer_columns}, {_trouble_columns}, r.seq, r.revision, n.revision AS network_revision,"
    " n.chain_id, n.sealed_rpc_urls AS sealed_network_urls"
    " FROM relayers r JOIN networks n ON n.name = r.network LEFT JOIN troubles t ON t.relayer_id = r.id"
)
_urls_from_json = msgspec.json.Decoder(tuple[RpcUrl, ...]).decode


class Watched(NamedTuple):
    """A relayer as it was when its look began. `revisions` are its own and its network's."""

    sequence: int
    relayer: Relayer
    urls: tuple[RpcUrl, ...]
    chain_id: int
    revisions: tuple[int, int]
    trouble: Trouble

    @property
    def disabled(self) -> bool:
        """By the monitor, which then enables it too."""
        reason = self.relayer.disabled_reason
        return self.relayer.system_disabled and reason is not UNSET and reason.type == NONCE_SYNC_FAILED


def read_due(read: ReadRows, vault: Vault, sequences: Sequence[int]) -> list[Watched]:
    """Those of them that are not paused and have a URL to ask. Sealed URLs that do not open leave nothing to ask."""
    names = {f"s{number}": sequence for number, sequence in enumerate(sequences)}
    listed = ", ".join(f":{name}" for name in names)
    found = [_watched(row, vault) for row in read(f"{_DUE} WHERE r.seq IN ({listed}) AND NOT r.paused", names)]
    return [each for each in found if each.urls]


def find(read: ReadRows, vault: Vault, relayer_id: str) -> Watched | None:
    rows = read(f"{_DUE} WHERE r.id = :id", {"id": relayer_id})
    return _watched(rows[0], vault) if rows else None


def _watched(row: Row, vault: Vault) -> Watched:
    try:
        relayer = relayer_rows.from_row(row, vault)
        urls = relayer.custom_rpc_urls or _network_urls(row.sealed_network_urls, relayer.network, vault)
    except Damaged:
        relayer, urls = relayer_rows.without_urls(row), ()
    revisions = (row.revision, row.network_revision)
    return Watched(row.seq, relayer, urls, row.chain_id, revisions, troubles.from_row(row))


def _network_urls(sealed: bytes | None, network: str, vault: Vault) -> tuple[RpcUrl, ...]:
    return () if sealed is None else _urls_from_json(vault.open(sealed, network_rows.place(network)))


def judged(watched: Watched, outcome: CheckResult, now: int) -> Trouble:
    """What is left of the relayer's trouble, or begins, after this look."""
    trouble = _after_balance(watched, outcome.balance, now)
    if outcome.nonce is not None or (outcome.answered and not watched.disabled):
        return trouble._replace(failed_rounds=0, failing_since=None, evidence=())
    trouble = trouble._replace(evidence=outcome.evidence, checked_at=now)
    if outcome.answered:
        return trouble  # a node is there again; the relayer waits for one that tells the nonce
    goes_on = watched.disabled or trouble.failed_rounds > 0
    since = trouble.failing_since if goes_on else None
    return trouble._replace(failed_rounds=trouble.failed_rounds + 1, failing_since=since or now)


def _after_balance(watched: Watched, balance: int | None, now: int) -> Trouble:
    trouble = watched.trouble
    if balance is None:
        return trouble
    if balance >= watched.relayer.policies.min_balance:
        return trouble._replace(low_since=None, balance=None)
    if trouble.low_since is None:
        return trouble._replace(low_since=now, balance=balance, checked_at=now)
    return trouble  # told once, until it has recovered


def matters(watched: Watched, outcome: CheckResult, now: int) -> bool:
    """Whether there is something to write down. Of a relayer that is well, or as it was, there is not."""
    if outcome.nonce is not None and watched.disabled:
        return True
    return judged(watched, outcome, now) != watched.trouble


def settle(context: ChangeContext, watched: Watched, outcome: CheckResult, rounds: int) -> list[str]:
    """Write it down; gives what was told. A relayer that somebody changed meanwhile is left to its next look."""
    relayer = watched.relayer
    if not _is_as_it_was(context, watched):
        return []
    trouble = judged(watched, outcome, context.now)
    told: list[str] = []
    if watched.disabled and outcome.nonce is not None:
        relayer_changes.enable(context, relayer.id)
        told.append(EventKind.RELAYER_ENABLED)
    if trouble.failed_rounds >= rounds and not relayer.system_disabled:
        reason = DisabledReason(details=_details(relayer, trouble), type=NONCE_SYNC_FAILED)
        relayer_changes.disable(context, relayer.id, reason)
        told.append(EventKind.RELAYER_DISABLED)
    if trouble.low_since is not None and watched.trouble.low_since is None:
        assert trouble.balance is not None
        least = relayer.policies.min_balance
        relayer_changes.report_low_balance(context, relayer.id, balance=trouble.balance, min_balance=least)
        told.append(EventKind.RELAYER_LOW_BALANCE)
    troubles.keep(context.transaction, relayer.id, trouble)
    return told


def _is_as_it_was(context: ChangeContext, watched: Watched) -> bool:
    row = context.transaction.one(
        "SELECT r.revision, n.revision AS network_revision"
        " FROM relayers r JOIN networks n ON n.name = r.network WHERE r.id = :id",
        {"id": watched.relayer.id},
    )
    return row is not None and tuple(row) == watched.revisions


def _details(relayer: Relayer, trouble: Trouble) -> str:
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(trouble.failing_since))
    rounds = f"{trouble.failed_rounds} round{'s' if trouble.failed_rounds > 1 else ''}"
    nodes = "; ".join(f"{each.node} {each.problem}" for each in trouble.evidence[:_MOST_TOLD])
    return (
        f"no RPC URL told the nonce of {relayer.address} in {rounds} since {since}: {nodes}. Check that the nodes "
        "run and can be reached from here; the relayer is enabled again as soon as one answers"
    )
