"""Saves the result of a signer's check, and reports what is new to the receivers of the relayers it concerns, once.

A signer has at most one alarm. It begins with `signer.unreachable` or `signer.mismatch` and ends with
`signer.recovered`. A check changes no relayer.
"""

import msgspec

from relaydeck.notifications.kinds import EventKind
from relaydeck.relayers import relayer_changes
from relaydeck.signers import check_rows
from relaydeck.signers.check import CANNOT_SIGN, MISMATCH, OK, THROTTLED, UNBOUND, SignerCheck, compared
from relaydeck.signers.check_rows import CheckedSigner, KeptCheck
from relaydeck.store.change_context import ChangeContext


def settle(context: ChangeContext, signer: CheckedSigner, check: SignerCheck) -> tuple[SignerCheck, list[EventKind]]:
    """Compare, save and report. Returns the check as it was saved, and the kinds of the events that report it.

    Nothing is saved for a signer without a driver, or for one that was removed meanwhile.
    """
    check = compared(check, relayers := check_rows.relayers_of(context.transaction.all, signer.id))
    if check.outcome == UNBOUND or not _is_there(context, signer):
        return check, []
    kept = check_rows.find_check(context.transaction.all, signer.id)
    alarm = _alarm(check, kept)
    if check.outcome == THROTTLED:
        check = msgspec.structs.replace(check, mismatched=tuple(_known_mismatches(kept)))
    check = msgspec.structs.replace(check, failing_since=_failing_since(check, kept.check))
    check_rows.keep(context.transaction, check, alarm)
    news = _news(kept, check, alarm, [each.relayer_id for each in relayers])
    for kind, ids in news.items():
        _report(context, kind, check, ids)
    return check, list(news)


def _is_there(context: ChangeContext, signer: CheckedSigner) -> bool:
    found = context.transaction.one("SELECT seq FROM signers WHERE id = :id", {"id": signer.id})
    return found is not None and found.seq == signer.sequence


def _alarm(check: SignerCheck, kept: KeptCheck) -> str:
    if check.outcome == THROTTLED:
        return kept.alarm  # throttling says nothing about the key
    if check.outcome in (OK, CANNOT_SIGN):
        return ""
    return "mismatch" if check.outcome == MISMATCH else "unreachable"


def _failing_since(check: SignerCheck, previous: SignerCheck | None) -> int | None:
    if check.succeeded:
        return None
    return check.checked_at if previous is None or previous.succeeded else previous.failing_since


def _news(kept: KeptCheck, check: SignerCheck, alarm: str, relayers: list[str]) -> dict[EventKind, list[str]]:
    """What is new for which relayers. What was reported once is not reported again."""
    if alarm == "unreachable":
        return {} if kept.alarm == alarm else {EventKind.SIGNER_UNREACHABLE: relayers}
    known = _known_mismatches(kept)
    concerned = relayers if kept.alarm == "unreachable" else known
    recovered = [each for each in concerned if each in relayers and each not in check.mismatched]
    news: dict[EventKind, list[str]] = {}
    if mismatched := [each for each in check.mismatched if each not in known]:
        news[EventKind.SIGNER_MISMATCH] = mismatched
    if recovered or (kept.alarm and not alarm):
        news[EventKind.SIGNER_RECOVERED] = recovered
    return news


def _known_mismatches(kept: KeptCheck) -> list[str]:
    return list(kept.check.mismatched) if kept.check and kept.alarm == "mismatch" else []


def _report(context: ChangeContext, kind: EventKind, check: SignerCheck, relayers: list[str]) -> None:
    details = {"signer_id": check.signer_id, "outcome": check.outcome, "explanation": check.explanation}
    context.performed(kind.value, check.signer_id, {"outcome": check.outcome, "explanation": check.explanation})
    for relayer_id in relayers:
        relayer_changes.report_signer(context, kind, relayer_id, details)
