"""What the monitor remembers of relayers in trouble: a row for each of them, and none for the others."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from relaydeck.store.database import Row, Transaction

ReadRows = Callable[[str, dict[str, Any]], list[Row]]

COLUMNS = "failed_rounds, failing_since, evidence, low_since, balance, checked_at"


class Remark(msgspec.Struct, frozen=True, array_like=True):
    """What a URL did in a round: its scheme and host, and what was wrong in our words."""

    node: str
    problem: str


class CheckResult(NamedTuple):
    """Of one look. `answered` without a nonce: a node is there, but it would not tell. That is no failed round."""

    answered: bool
    nonce: int | None = None
    balance: int | None = None
    evidence: tuple[Remark, ...] = ()  # of the URLs, when there is no nonce


_remarks_from_json = msgspec.json.Decoder(tuple[Remark, ...]).decode


class Trouble(NamedTuple):
    """Times are seconds, a balance is Wei."""

    failed_rounds: int = 0
    failing_since: int | None = None
    evidence: tuple[Remark, ...] = ()
    low_since: int | None = None
    balance: int | None = None
    checked_at: int = 0

    @property
    def is_over(self) -> bool:
        return not self.evidence and self.low_since is None


def from_row(row: Row) -> Trouble:
    """From `COLUMNS`; no trouble when they are null."""
    if row.failed_rounds is None:
        return Trouble()
    return Trouble(
        failed_rounds=row.failed_rounds,
        failing_since=row.failing_since,
        evidence=_remarks_from_json(row.evidence),
        low_since=row.low_since,
        balance=None if row.balance is None else int(row.balance),
        checked_at=row.checked_at,
    )


def find(read: ReadRows, relayer_id: str) -> Trouble:
    rows = read(f"SELECT {COLUMNS} FROM troubles WHERE relayer_id = :id", {"id": relayer_id})
    return from_row(rows[0]) if rows else Trouble()


def keep(transaction: Transaction, relayer_id: str, trouble: Trouble) -> None:
    """Remember it, or forget it when it is over."""
    if trouble.is_over:
        transaction.execute("DELETE FROM troubles WHERE relayer_id = :id", {"id": relayer_id})
        return
    transaction.execute(
        f"INSERT INTO troubles (relayer_id, {COLUMNS})"
        " VALUES (:id, :failed_rounds, :failing_since, :evidence, :low_since, :balance, :checked_at)"
        " ON CONFLICT (relayer_id) DO UPDATE SET failed_rounds = excluded.failed_rounds,"
        " failing_since = excluded.failing_since, evidence = excluded.evidence, low_since = excluded.low_since,"
        " balance = excluded.balance, checked_at = excluded.checked_at",
        {
            **trouble._asdict(),
            "id": relayer_id,
            "evidence": msgspec.json.encode(trouble.evidence).decode(),
            "balance": None if trouble.balance is None else str(trouble.balance),
        },
    )


def forget_rounds(transaction: Transaction, relayer_id: str) -> None:
    """Count anew: the rounds before were not followed by another."""
    transaction.execute("UPDATE troubles SET failed_rounds = 0 WHERE relayer_id = :id", {"id": relayer_id})
