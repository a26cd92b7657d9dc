"""Open incidents: one row for each relayer that has a problem, none for the others."""

from typing import NamedTuple

import msgspec

from relaydeck.store.database import Row, Transaction

TABLE = "troubles"  # its first name: renaming a table would break the old processes of a rolling upgrade
COLUMNS = "failed_rounds, failing_since, evidence, low_since, balance, checked_at"


class NodeProblem(msgspec.Struct, frozen=True, array_like=True):
    """What was wrong with one node in a round, in our own words."""

    node: str  # scheme and host
    problem: str


class CheckResult(NamedTuple):
    """The result of one check. A round fails only when no node answered at all.

    `answered` without a nonce means that a node of the right chain answered but did not return the nonce.
    """

    answered: bool
    nonce: int | None = None
    balance: int | None = None
    evidence: tuple[NodeProblem, ...] = ()  # when there is no nonce


_problems_from_json = msgspec.json.Decoder(tuple[NodeProblem, ...]).decode


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


def from_row(row: Row) -> Incident:
    """From `COLUMNS`, which are null for a relayer without an incident."""
    if row.failed_rounds is None:
        return Incident()
    return Incident(
        failed_rounds=row.failed_rounds,
        failing_since=row.failing_since,
        evidence=_problems_from_json(row.evidence),
        low_since=row.low_since,
        balance=None if row.balance is None else int(row.balance),
        checked_at=row.checked_at,
    )


def save(transaction: Transaction, relayer_id: str, incident: Incident) -> None:
    """Store the incident, or remove it when it is over."""
    if incident.is_over:
        transaction.execute(f"DELETE FROM {TABLE} WHERE relayer_id = :id", {"id": relayer_id})
        return
    transaction.execute(
        f"INSERT INTO {TABLE} (relayer_id, {COLUMNS})"
        " VALUES (:id, :failed_rounds, :failing_since, :evidence, :low_since, :balance, :checked_at)"
        " ON CONFLICT (relayer_id) DO UPDATE SET failed_rounds = excluded.failed_rounds,"
        " failing_since = excluded.failing_since, evidence = excluded.evidence, low_since = excluded.low_since,"
        " balance = excluded.balance, checked_at = excluded.checked_at",
        {
            **incident._asdict(),
            "id": relayer_id,
            "evidence": msgspec.json.encode(incident.evidence).decode(),
            "balance": None if incident.balance is None else str(incident.balance),
        },
    )


def reset_rounds(transaction: Transaction, relayer_id: str) -> None:
    """Only consecutive rounds count: those before a pause do not count after it."""
    transaction.execute(f"UPDATE {TABLE} SET failed_rounds = 0 WHERE relayer_id = :id", {"id": relayer_id})
