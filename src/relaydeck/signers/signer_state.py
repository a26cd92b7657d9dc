"""What the latest check of its signer means for a relayer. Only reads."""

from typing import NamedTuple

import msgspec

from relaydeck.relayers.explanation import Explanation, RelayerState, StateName
from relaydeck.signers import check_rows
from relaydeck.signers.check import SignerCheck
from relaydeck.store.database import ReadRows
from relaydeck.timestamps import utc

_STATES: dict[str, StateName] = {"unreachable": "signer_unreachable", "mismatch": "signer_mismatch"}


class SignerState(NamedTuple):
    check: SignerCheck | None = None  # none yet: its type has no driver, or its turn has not come
    problem: RelayerState | None = None


def read_signer_state(read: ReadRows, relayer_id: str) -> SignerState:
    rows = read("SELECT signer_id FROM relayers WHERE id = :id", {"id": relayer_id})
    if not rows:
        return SignerState()
    kept = check_rows.find_check(read, rows[0].signer_id)
    if kept.check is None or not kept.alarm or not _concerns(kept.check, kept.alarm, relayer_id):
        return SignerState(kept.check)
    return SignerState(kept.check, _problem(read, kept.check, kept.alarm))


def with_signer(explanation: Explanation, signer: SignerState) -> Explanation:
    """The explanation of a relayer's state, completed by what is known about its signer."""
    if signer.check is None:
        return explanation
    states = explanation.states if signer.problem is None else (*explanation.states, signer.problem)
    shown = f"{signer.check.outcome}: {signer.check.explanation} (checked {utc(signer.check.checked_at)})"
    return msgspec.structs.replace(explanation, states=states, signer_check=shown)


def _concerns(check: SignerCheck, alarm: str, relayer_id: str) -> bool:
    return alarm == "unreachable" or relayer_id in check.mismatched


def _problem(read: ReadRows, check: SignerCheck, alarm: str) -> RelayerState:
    rows = read(
        "SELECT moment, actor FROM audit WHERE record = :id AND action = :action ORDER BY seq DESC LIMIT 1",
        {"id": check.signer_id, "action": f"signer.{alarm}"},
    )
    moment, actor = rows[0] if rows else (None, None)
    cause = f"signer {check.signer_id!r}: {check.explanation} ({check.outcome}, checked {utc(check.checked_at)})"
    return RelayerState(state=_STATES[alarm], since=utc(moment), by=actor, cause=cause)
