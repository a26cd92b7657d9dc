"""What is wrong right now, as the overview sums it up."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from relaydeck.console.fleet import Balance, FleetReader, RelayerProblem, read_problems
from relaydeck.notifications import events
from relaydeck.notifications.delivery_queries import FailingReceiver
from relaydeck.notifications.model import EventKind
from relaydeck.relayers import snapshots
from relaydeck.relayers.snapshots import Incident, NodeProblem
from relaydeck.signers import check_results
from relaydeck.signers.check import SignerCheck
from relaydeck.store.open_store import Store
from tests.console.conftest import Operator, plain
from tests.support.running import Running, eventually, run_command
from tests.support.seeding import fill, opened, relayer

REFUSED = (NodeProblem("http://node", "refused the connection"),)
SINCE = "1970-01-01T00:16:40Z"


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    fill(home, notifications={"pager": None}, relayers=[relayer(f"r{number}") for number in range(5)])
    with opened(home) as store:
        yield store


def trouble(store: Store, incident: Incident, *names: str, change: str = "paused = paused") -> None:
    with store.database.transaction() as transaction:
        for name in names:
            snapshots.save_incident(transaction, name, incident)
            transaction.execute(f"UPDATE relayers SET {change} WHERE id = :id", {"id": name})


def test_a_fleet_without_a_problem(store: Store) -> None:
    assert read_problems(store.database.read) == []


def test_relayers_with_the_same_cause_are_one_entry(store: Store) -> None:
    failing = Incident(failed_rounds=3, failing_since=1000, evidence=REFUSED)
    trouble(store, failing, "r0", "r1", "r2", "r3", change="system_disabled = true")
    (found,) = read_problems(store.database.read)
    assert found._replace(relayers=()) == RelayerProblem(
        "disabled", "dev", "http://node refused the connection", None, SINCE, (), 4
    )
    assert found.relayers == (("r0", "Relayer r0"), ("r1", "Relayer r1"), ("r2", "Relayer r2"))


def test_what_is_worse_comes_first(store: Store) -> None:
    trouble(store, Incident(low_since=1000, balance=3), "r0")
    trouble(store, Incident(failed_rounds=1, failing_since=1000, evidence=REFUSED), "r1")
    trouble(
        store, Incident(failed_rounds=9, failing_since=1000, evidence=REFUSED), "r2", change="system_disabled = true"
    )
    found = read_problems(store.database.read)
    assert [each.state for each in found] == ["disabled", "failing", "low_balance"]
    assert found[2].low == Balance(3, 0, "ETH")


def test_a_paused_relayer_needs_no_attention(store: Store) -> None:
    trouble(store, Incident(failed_rounds=1, failing_since=1000, evidence=REFUSED), "r0", change="paused = true")
    assert read_problems(store.database.read) == []


def test_without_evidence_the_reason_is_the_cause(store: Store) -> None:
    reason = """system_disabled = true, disabled_reason = '{"details": "gone", "type": "NonceSyncFailed"}'"""
    trouble(store, Incident(low_since=1000, balance=3), "r0", change=reason)
    assert [each.cause for each in read_problems(store.database.read)] == ["gone", ""]


def test_a_failing_signer_has_the_time_when_it_began_to_fail(store: Store) -> None:
    check = SignerCheck("ops", 9000, 5, "wrong_key_kind", "not on secp256k1", failing_since=1000)
    with store.database.transaction() as transaction:
        check_results.keep(transaction, check, "unreachable")
    assert FleetReader().read(store).signers == [check]


def test_a_receiver_whose_deliveries_wait_after_a_failure(store: Store) -> None:
    assert FleetReader().read(store).receivers == []
    with store.database.transaction() as transaction:
        events.record(transaction, EventKind.NOTIFICATION_TEST, {}, notification_id="pager", now=900)
        transaction.execute("UPDATE deliveries SET tries = 1, due_at = 2000000")
        transaction.insert(
            "attempts",
            ("delivery", "started_at", "duration", "status", "problem", "answer"),
            [(1, 1_000_000, 5, None, "tls_failed", "")],
        )
    assert FleetReader().read(store).receivers == [FailingReceiver("pager", 1, 1_000_000, None, "tls_failed")]


def test_the_overview_shows_a_receiver_that_fails(served: Running, operator: Operator) -> None:
    broken = ("id=broken", "type=webhook", "url=http://127.0.0.1:9/hook")  # an address that the service refuses
    run_command(served.home, "notification", "create", *broken)
    run_command(served.home, "notification", "test", "broken")
    cause = "address_refused (an address of the receiver is not public, and RELAYDECK_WEBHOOK_ALLOW of the service does"
    eventually(lambda: cause in plain(operator.get("")))
    assert "broken notificationfailing–Deliveries wait. An attempt failed " in plain(operator.get(""))
