"""What a check means: it is kept, and reported once to the receivers of the relayers that it concerns."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from relaydeck.notifications import events
from relaydeck.relayers import relayer_rows
from relaydeck.scope import Scope
from relaydeck.signers import check_results
from relaydeck.signers.check import SignerCheck
from relaydeck.store.audit import AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.open_store import Store
from tests.support.places import ENGINES
from tests.support.seeding import ADDRESS, WEBHOOK, fill, open_home, relayer

OTHER = "0x" + "11" * 20
OK = SignerCheck("ops", 1000, 5, "ok", "", ADDRESS)
GONE = SignerCheck("ops", 1000, 5, "unreachable", "the key system refused the connection")
DENIED = SignerCheck("ops", 1000, 5, "access_denied", "the key is disabled")
THROTTLED = SignerCheck("ops", 1000, 5, "throttled", "later")
CANNOT_SIGN = SignerCheck("ops", 1000, 5, "cannot_sign", "no such curve")
UNBOUND = SignerCheck("ops", 1000, None, "unbound", "no driver")
ELSEWHERE = SignerCheck("ops", 1000, 5, "ok", "", OTHER)


class Home:
    def __init__(self, store: Store) -> None:
        self.store = store

    def settle(self, *checks: SignerCheck) -> list[list[str]]:
        """What each check reported."""
        return [self._settle(check)[1] for check in checks]

    def _settle(self, check: SignerCheck) -> tuple[SignerCheck, list[str]]:
        signer = check_results.find_signer(self.store.database.read, self.store.vault, "ops")
        with self.store.database.transaction() as transaction:
            context = ChangeContext(transaction, AuditLog(self.store.vault), "monitor", 1000)
            kept, reported = check_results.settle(context, signer, check)
            return kept, list(reported)

    def events(self) -> list[tuple[str, str | None]]:
        return [(each.kind, each.relayer_id) for each in events.list_events(self.store.database.read)]

    def kept(self) -> check_results.KeptCheck:
        return check_results.find_check(self.store.database.read, "ops")

    def failing_since(self, check: SignerCheck) -> int | None:
        return self._settle(check)[0].failing_since

    def move(self, relayer_id: str, address: str) -> None:
        with self.store.database.transaction() as transaction:
            transaction.execute("UPDATE relayers SET address = :to WHERE id = :id", {"to": address, "id": relayer_id})


@pytest.fixture(params=ENGINES)
def home(request: pytest.FixtureRequest, tmp_path: Path, lend: Callable[[Path, str], Path]) -> Iterator[Home]:
    folder = lend(tmp_path / "home", request.param)
    relayers = [relayer(name, notification_id="pager") for name in ("r1", "r2")]
    fill(folder, notifications={"pager": WEBHOOK}, relayers=relayers)
    store = open_home(folder)
    yield Home(store)
    store.close()


def test_a_successful_check_is_kept_and_told_to_nobody(home: Home) -> None:
    assert (home.settle(OK, OK), home.events()) == ([[], []], [])
    kept = home.kept()
    explanation = "the key signed a challenge, and its address matches the 2 relayers that use this signer"
    assert kept == check_results.KeptCheck("", msgspec.structs.replace(OK, explanation=explanation))


def test_a_key_out_of_reach_is_told_once_and_its_return_once(home: Home) -> None:
    assert home.settle(GONE, DENIED, GONE, OK, OK) == [["signer.unreachable"], [], [], ["signer.recovered"], []]
    assert home.events() == [
        ("signer.unreachable", "r1"),
        ("signer.unreachable", "r2"),
        ("signer.recovered", "r1"),
        ("signer.recovered", "r2"),
    ]


def test_a_failure_keeps_the_time_of_its_first_check(home: Home) -> None:
    later = [msgspec.structs.replace(each, checked_at=2000 + number) for number, each in enumerate((DENIED, THROTTLED))]
    assert [home.failing_since(each) for each in (GONE, *later, OK, later[0])] == [1000, 1000, 1000, None, 2000]


def test_a_failure_from_before_its_time_was_kept_has_none(home: Home) -> None:
    with home.store.database.transaction() as transaction:
        check_results.keep(transaction, GONE, "unreachable")
    assert home.failing_since(msgspec.structs.replace(GONE, checked_at=2000)) is None


def test_only_relayers_with_another_address_hear_of_a_mismatch(home: Home) -> None:
    home.move("r2", OTHER)
    assert home.settle(OK, OK) == [["signer.mismatch"], []]
    home.move("r2", ADDRESS)
    assert home.settle(OK) == [["signer.recovered"]]
    assert home.events() == [("signer.mismatch", "r2"), ("signer.recovered", "r2")]


def test_a_further_mismatch_is_told_to_the_further_relayer(home: Home) -> None:
    home.move("r2", OTHER)
    home.settle(OK)
    home.move("r1", OTHER)
    assert home.settle(OK) == [["signer.mismatch"]]
    assert home.events() == [("signer.mismatch", "r2"), ("signer.mismatch", "r1")]


def test_a_key_that_returns_with_another_address_is_a_mismatch(home: Home) -> None:
    assert home.settle(GONE, ELSEWHERE) == [["signer.unreachable"], ["signer.mismatch"]]


def test_throttling_neither_begins_an_alarm_nor_ends_one(home: Home) -> None:
    home.move("r2", OTHER)
    assert home.settle(THROTTLED, OK, THROTTLED, OK) == [[], ["signer.mismatch"], [], []]
    assert home.settle(GONE, THROTTLED, OK)[1] == []


def test_a_key_that_cannot_sign_is_no_alarm(home: Home) -> None:
    assert home.settle(CANNOT_SIGN, GONE, CANNOT_SIGN) == [[], ["signer.unreachable"], ["signer.recovered"]]


def test_nothing_is_kept_of_a_signer_without_a_driver(home: Home) -> None:
    assert (home.settle(UNBOUND), home.kept()) == ([[]], check_results.KeptCheck())


def test_an_alarm_is_in_the_audit_log_and_in_the_event(home: Home) -> None:
    home.settle(GONE, OK)
    actions = home.store.database.read("SELECT actor, action, record FROM audit WHERE record = 'ops' ORDER BY seq", {})
    assert [tuple(row) for row in actions] == [
        ("monitor", "signer.unreachable", "ops"),
        ("monitor", "signer.recovered", "ops"),
    ]
    event = events.list_events(home.store.database.read)[0]
    data = msgspec.json.decode(event.data)
    assert (data["relayer"]["id"], data["details"]) == (
        "r1",
        {"signer_id": "ops", "outcome": "unreachable", "explanation": "the key system refused the connection"},
    )


def test_a_scoped_credential_learns_nothing_of_others_that_use_the_signer(home: Home) -> None:
    """And its own check of the signer does not end what they were told."""
    home.move("r2", OTHER)
    home.settle(OK)
    database, signer = home.store.database, check_results.find_signer(home.store.database.read, home.store.vault, "ops")
    (event,) = events.list_events(database.read)
    named = f"the key signs for {ADDRESS}, but relayer 'r2' has {OTHER}"
    assert msgspec.json.decode(event.data)["details"]["explanation"] == named
    matches = "the key signed a challenge, and its address matches the one relayer that uses this signer"
    mine = msgspec.structs.replace(OK, outcome="ok", explanation=matches)
    with database.transaction() as transaction, transaction.within(Scope(relayers=("r1",))):
        context = ChangeContext(transaction, AuditLog(home.store.vault), "token:mine", 1000)
        assert check_results.settle(context, signer, OK) == (mine, [])
    both = Scope(relayers=("r1", "r2"))
    for scope, seen in ((None, "mismatch"), (Scope(relayers=("r1",)), ""), (both, "mismatch")):
        with database.within(scope):
            alarm, check = home.kept()
            audited = database.read("SELECT 1 FROM audit WHERE action = 'signer.mismatch'", {})
        assert check is not None
        assert (alarm, check.mismatched, len(audited)) == ((seen, ("r2",), 1) if seen else ("", (), 0))


def test_a_check_changes_no_relayer(home: Home) -> None:
    columns = f"SELECT {relayer_rows.COLUMNS}, revision FROM relayers ORDER BY seq"
    before = home.store.database.read(columns, {})
    home.settle(GONE, ELSEWHERE, OK)
    assert home.store.database.read(columns, {}) == before


def test_a_signer_that_was_replaced_meanwhile_keeps_nothing(home: Home) -> None:
    signer = check_results.find_signer(home.store.database.read, home.store.vault, "ops")
    with home.store.database.transaction() as transaction:
        context = ChangeContext(transaction, AuditLog(home.store.vault), "monitor", 1000)
        check_results.settle(context, signer._replace(sequence=signer.sequence + 1), GONE)
    assert (home.kept(), home.events()) == (check_results.KeptCheck(), [])
