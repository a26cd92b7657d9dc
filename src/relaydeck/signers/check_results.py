"""The checks of signers: made once in an interval, stored, reported to receivers, and explained for a relayer.

A signer has at most one alarm. It begins with `signer.unreachable` or `signer.mismatch` and ends with
`signer.recovered`; each is reported once. A check changes no relayer.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import msgspec

from relaydeck.errors import Damaged, RecordNotFound
from relaydeck.log import Log
from relaydeck.notifications.model import EventKind
from relaydeck.relayers import relayer_changes
from relaydeck.relayers.why import Explanation, RelayerState, StateName, last_action
from relaydeck.scheduling.rounds import RoundOptions, Rounds
from relaydeck.settings.model import Settings
from relaydeck.signers import signer_changes
from relaydeck.signers.check import MISMATCH, OK, SignerCheck, check_signer, compared, seen, stored_check
from relaydeck.signers.drivers.driver_errors import CannotSign, NotBound, Throttled
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.signers.signer_types import NewSigner
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import ReadRows, Transaction
from relaydeck.store.open_store import Store
from relaydeck.store.rows import upsert_into
from relaydeck.store.vault import Vault
from relaydeck.store.writer import Writer
from relaydeck.timestamps import utc

_SIGNER = f"SELECT seq, {signer_changes.OPENED_COLUMNS} FROM signers"
_MATCHES = "the key signed a challenge, and its address is that of the relayer"
_KEPT = ("signer_id", "checked_at", "outcome", "alarm", "result")
_KEEP = upsert_into("signer_checks", "signer_id", _KEPT)


class CheckedSigner(NamedTuple):
    """A signer to check. Its sequence number tells it from another signer that gets the same id later."""

    sequence: int
    signer: NewSigner


class KeptCheck(NamedTuple):
    alarm: str = ""
    check: SignerCheck | None = None


def read_signer(read: ReadRows, vault: Vault, sequence: int, types: frozenset[str]) -> CheckedSigner | None:
    """None unless it has one of the types. Raises Damaged for a config that does not open."""
    rows = read(f"{_SIGNER} WHERE seq = :seq", {"seq": sequence})
    found = rows and rows[0].type in types
    return CheckedSigner(sequence, signer_changes.opened(rows[0], vault)) if found else None


def find_signer(read: ReadRows, vault: Vault, signer_id: str) -> CheckedSigner:
    """Raises RecordNotFound."""
    rows = read(f"{_SIGNER} WHERE id = :id", {"id": signer_id})
    if not rows:
        raise RecordNotFound("signer")
    return CheckedSigner(rows[0].seq, signer_changes.opened(rows[0], vault))


def relayers_of(read: ReadRows, signer_id: str) -> dict[str, str]:
    """The address of each, by its id."""
    rows = read("SELECT id, address FROM relayers WHERE signer_id = :id ORDER BY seq", {"id": signer_id})
    return {row.id: row.address for row in rows}


def find_check(read: ReadRows, signer_id: str) -> KeptCheck:
    rows = read("SELECT alarm, result FROM signer_checks WHERE signer_id = :id", {"id": signer_id})
    return KeptCheck(rows[0].alarm, stored_check(rows[0].result)) if rows else KeptCheck()


def keep(transaction: Transaction, check: SignerCheck, alarm: str) -> None:
    values = (check.signer_id, check.checked_at, check.outcome, alarm, msgspec.json.encode(check).decode())
    transaction.execute(_KEEP, dict(zip(_KEPT, values, strict=True)))
    transaction.mark("signer_checks")


_STATES: dict[str, StateName] = {"unreachable": "signer_unreachable", "mismatch": "signer_mismatch"}


class SignerState(NamedTuple):
    check: SignerCheck | None = None  # none yet: its type has no driver, or its turn has not come
    problem: RelayerState | None = None


def read_signer_state(read: ReadRows, relayer_id: str) -> SignerState:
    rows = read("SELECT signer_id FROM relayers WHERE id = :id", {"id": relayer_id})
    alarm, check = find_check(read, rows[0].signer_id) if rows else KeptCheck()
    if check is None or not alarm or (alarm == "mismatch" and relayer_id not in check.mismatched):
        return SignerState(check)
    return SignerState(check, _problem(read, check, alarm))


def with_signer(explanation: Explanation, signer: SignerState) -> Explanation:
    """The explanation of a relayer's state, completed by what is known about its signer."""
    if signer.check is None:
        return explanation
    states, check = explanation.states, signer.check
    states = states if signer.problem is None else (*states, signer.problem)
    if check == compared(check, {}):  # no relayer used it then
        check = compared(check, {explanation.id: explanation.address})
    shown = f"{check.outcome}: {check.explanation} (checked {utc(check.checked_at)})"
    return msgspec.structs.replace(explanation, states=states, signer_check=shown)


def _problem(read: ReadRows, check: SignerCheck, alarm: str) -> RelayerState:
    alarmed_at, by = last_action(read, check.signer_id, f"signer.{alarm}")
    since = alarmed_at if check.failing_since is None else utc(check.failing_since)  # as in the list of problems
    cause = f"signer {check.signer_id!r}: {check.explanation} ({check.outcome}, checked {utc(check.checked_at)})"
    return RelayerState(state=_STATES[alarm], since=since, by=by, cause=cause)


def settle(context: ChangeContext, checked: CheckedSigner, check: SignerCheck) -> tuple[SignerCheck, list[EventKind]]:
    """Compare, save and report. Returns the check as it was saved, and the kinds of the events that report it.

    Nothing is saved for a signer without a driver, or for one that was removed meanwhile. What is saved is about every
    relayer that uses the signer, what is returned about those inside the scope of the caller.
    """
    relayers = relayers_of(context.transaction.all, checked.signer.id)
    with context.transaction.within(None):
        saved, news = _settle(context, checked, check)
    return seen(saved, relayers), news


def _settle(context: ChangeContext, checked: CheckedSigner, check: SignerCheck) -> tuple[SignerCheck, list[EventKind]]:
    name, transaction = checked.signer.id, context.transaction
    check = compared(check, relayers := relayers_of(transaction.all, name))
    found = transaction.one("SELECT seq FROM signers WHERE id = :id", {"id": name})
    if check.outcome == NotBound.outcome or found is None or found.seq != checked.sequence:
        return check, []
    kept = find_check(transaction.all, name)
    alarm = _alarm(check, kept)
    if check.outcome == Throttled.outcome:
        check = msgspec.structs.replace(check, mismatched=tuple(_known_mismatches(kept)))
    check = msgspec.structs.replace(check, failing_since=_failing_since(check, kept.check))
    keep(transaction, check, alarm)
    news = _news(kept, check, alarm, list(relayers))
    for kind, ids in news.items():
        _report(context, kind, check, {each: relayers[each] for each in ids})
    return check, list(news)


def _alarm(check: SignerCheck, kept: KeptCheck) -> str:
    if check.outcome == Throttled.outcome:
        return kept.alarm  # throttling says nothing about the key
    if check.outcome in (OK, CannotSign.outcome):
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


def _report(context: ChangeContext, kind: EventKind, check: SignerCheck, relayers: Mapping[str, str]) -> None:
    context.performed(kind.value, check.signer_id, {"outcome": check.outcome, "explanation": check.explanation})
    for relayer_id, address in relayers.items():
        found = seen(check, {relayer_id: address})  # its receiver learns nothing of the others
        explanation = _MATCHES if found.succeeded else found.explanation
        details = {"signer_id": check.signer_id, "outcome": found.outcome, "explanation": explanation}
        relayer_changes.record_event(context, kind, relayer_id, details)


class CheckCounts(NamedTuple):
    checked: int
    failing: int
    oldest: int | None  # when the check that is longest ago was made, in seconds


def count_checks(read: ReadRows) -> CheckCounts:
    (every,) = read("SELECT count(*) AS checked, min(checked_at) AS oldest FROM signer_checks", {})
    (bad,) = read("SELECT count(*) AS failing FROM signer_checks WHERE outcome <> 'ok'", {})
    return CheckCounts(every.checked, bad.failing, every.oldest)


Count = Callable[[str], None]


def check_options(settings: Settings, access: SignerKeys) -> RoundOptions:
    """Nothing is checked while no driver is bound."""
    return RoundOptions(settings.signer_check_seconds if access.bound_types else 0.0, settings.lease_seconds)


class SignerCheckRounds(Rounds[CheckedSigner]):
    table: str = "signers"
    lease_name: ClassVar[str] = "signer checks"
    failure: ClassVar[str] = "signers are not checked"

    def __init__(
        self,
        store: Store,
        writer: Writer,
        audit: AuditLog,
        log: Log,
        access: SignerKeys,
        count: Count,
        rounds: RoundOptions,
        **clocks: Callable[[], float],
    ) -> None:
        super().__init__(store, writer, log, rounds, **clocks)
        self._audit, self._access, self._count = audit, access, count

    def read_due(self, sequences: Sequence[int]) -> list[tuple[Sequence[int], CheckedSigner]]:
        found = [self._read_signer(each) for each in sequences]
        return [((each.sequence,), each) for each in found if each is not None]

    def _read_signer(self, sequence: int) -> CheckedSigner | None:
        try:
            return read_signer(self._read, self._vault, sequence, self._access.bound_types)
        except Damaged:
            return None  # reported where it is shown, and by `relaydeck doctor`

    async def check_and_save(self, checked: CheckedSigner) -> None:
        check = await check_signer(self._access, checked.signer, clock=self._now)
        if self._leases.holds(checked.sequence):
            await self._settle(checked, check)

    async def _settle(self, checked: CheckedSigner, check: SignerCheck) -> None:
        def write(transaction: Transaction) -> tuple[SignerCheck, list[EventKind]]:
            self._leases.require(transaction, checked.sequence)
            context = ChangeContext(transaction, self._audit, "monitor", int(self._now()))
            return settle(context, checked, check)

        check, events = await self._writer.write(write)
        self._count("ok" if check.succeeded else "failed")
        for kind in events:
            level = "info" if kind is EventKind.SIGNER_RECOVERED else "warning"
            shown = {"signer": checked.signer.id, "outcome": check.outcome, "explanation": check.explanation}
            self._log.event(level, kind.value, cause=check.explanation, **shown)
