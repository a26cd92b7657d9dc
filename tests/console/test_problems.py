"""What is wrong right now, as the overview and `/admin/v1/problems` sum it up, and who takes care of it."""

import getpass
import json
import re
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from relaydeck.admin.problems import read_problems
from relaydeck.api.records import AffectedRecord, FleetProblem
from relaydeck.notifications import events
from relaydeck.notifications.model import EventKind
from relaydeck.relayers import balance_history, snapshots
from relaydeck.relayers.balance_history import BalancePeriod
from relaydeck.relayers.snapshots import Incident, NodeProblem, StoredRunway
from relaydeck.scope import Scope
from relaydeck.secret import Secret
from relaydeck.signers import check_results, signer_changes
from relaydeck.signers.check import SignerCheck
from relaydeck.signers.signer_types import LocalConfig, NewSigner
from relaydeck.store.open_store import Store
from relaydeck.timestamps import utc
from tests.console.conftest import Operator, plain
from tests.support.running import Running, eventually, run_command
from tests.support.seeding import fill, issue, opened, relayer

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


def found(store: Store, now: int = 0) -> list[FleetProblem]:
    return read_problems(store.database.read, now, None).found


def test_a_fleet_without_a_problem(store: Store) -> None:
    assert found(store) == []


def test_relayers_with_the_same_cause_are_one_entry(store: Store) -> None:
    failing = Incident(failed_rounds=3, failing_since=1000, evidence=REFUSED)
    trouble(store, failing, "r0", "r1", "r2", "r3", change="system_disabled = true")
    assert found(store) == [
        FleetProblem(
            id="8c3174413fdde9dd",
            state="disabled",
            kind="relayer",
            network="dev",
            native_symbol="ETH",
            cause="No node returned the nonce: http://node refused the connection.",
            since=SINCE,
            total=4,
            records=tuple(AffectedRecord(f"r{number}", f"Relayer r{number}") for number in range(3)),
        )
    ]


def test_what_is_worse_comes_first(store: Store) -> None:
    trouble(store, Incident(low_since=1000, balance=3), "r0")
    trouble(store, Incident(failed_rounds=1, failing_since=1000, evidence=REFUSED), "r1")
    trouble(
        store, Incident(failed_rounds=9, failing_since=1000, evidence=REFUSED), "r2", change="system_disabled = true"
    )
    with store.database.transaction() as transaction:
        snapshots.save_runway(transaction, 4, StoredRunway(computed_at=1, minimum_at=7200, low_since=1000))
    shown = [(each.state, each.cause) for each in found(store)]
    assert shown == [
        ("disabled", "No node returned the nonce: http://node refused the connection."),
        ("failing", "No node returned the nonce: http://node refused the connection."),
        ("low_balance", "The balance is 3 Wei, and its minimum is 0 Wei."),
        ("low_runway", "The balance is expected to reach its minimum of 0 Wei at 1970-01-01T02:00:00Z."),
    ]


def test_a_low_balance_is_the_present_one_and_not_that_of_the_alarm(store: Store) -> None:
    trouble(store, Incident(low_since=1000, balance=3), "r0")
    with store.database.transaction() as transaction:
        balance_history.save(transaction, [(1, BalancePeriod(2000, 2060, 2, 1))])
    assert [each.cause for each in found(store)] == ["The balance is 2 Wei, and its minimum is 0 Wei."]


def test_a_paused_relayer_needs_no_attention(store: Store) -> None:
    trouble(store, Incident(failed_rounds=1, failing_since=1000, evidence=REFUSED), "r0", change="paused = true")
    with store.database.transaction() as transaction:
        snapshots.save_runway(transaction, 1, StoredRunway(computed_at=1, minimum_at=7200, low_since=1000))
    assert found(store) == []


def test_without_evidence_the_reason_is_the_cause(store: Store) -> None:
    reason = """system_disabled = true, disabled_reason = '{"details": "gone", "type": "NonceSyncFailed"}'"""
    trouble(store, Incident(low_since=1000, balance=3), "r0", change=reason)
    assert [each.cause for each in found(store)] == ["gone", "The balance is 3 Wei, and its minimum is 0 Wei."]


def test_a_failing_signer_has_the_time_when_it_began_to_fail(store: Store) -> None:
    check = SignerCheck("ops", 9000, 5, "wrong_key_kind", "not on secp256k1", failing_since=1000)
    with store.database.transaction() as transaction:
        check_results.keep(transaction, check, "unreachable")
    (problem,) = found(store)
    assert (problem.state, problem.since, problem.records) == (
        "signer_unreachable",
        SINCE,
        (AffectedRecord("ops", "ops"),),
    )


def test_a_receiver_whose_deliveries_wait_after_a_failure(store: Store) -> None:
    assert found(store) == []
    with store.database.transaction() as transaction:
        events.record(transaction, EventKind.NOTIFICATION_TEST, {}, notification_id="pager", now=900)
        transaction.execute("UPDATE deliveries SET tries = 1, due_at = 2000000")
        transaction.insert(
            "attempts",
            ("delivery", "started_at", "duration", "status", "problem", "answer"),
            [(1, 1_000_000, 5, None, "tls_failed", "")],
        )
    (problem,) = found(store)
    assert (problem.state, problem.since) == ("receiver_failing", SINCE)
    assert (
        problem.cause == "Nothing has arrived since an attempt failed: the receiver failed the TLS handshake. 1 waits."
    )


def fail_signers(store: Store, names: Sequence[str], explanation: str = "refused", at: int = 9000) -> None:
    with store.database.transaction() as transaction:
        for number, name in enumerate(names):
            check = SignerCheck(name, at - number, 5, "unreachable", explanation, failing_since=1000)
            check_results.keep(transaction, check, "unreachable")


def named(names: Sequence[str]) -> tuple[AffectedRecord, ...]:
    return tuple(AffectedRecord(each, each) for each in names)


def add_signers(store: Store, names: Sequence[str]) -> None:
    made = [signer_changes.prepare(NewSigner(each, "plain", LocalConfig(Secret("11" * 32)))) for each in names]
    with store.database.transaction() as transaction:
        signer_changes.insert(transaction, store.vault, made, origin="api", now=0)


def test_signers_that_fail_for_the_same_reason_are_one_problem_whenever_they_are_checked(store: Store) -> None:
    names = [f"s{number:02}" for number in range(25)]
    add_signers(store, names)
    fail_signers(store, names)
    (before,) = found(store)
    assert before == FleetProblem(
        id="8e8d1a2ac71f5bbd",
        state="signer_unreachable",
        kind="signer",
        network=None,
        native_symbol=None,
        cause="refused (unreachable)",
        since=SINCE,
        total=25,
        records=named(["s00", "s01", "s02"]),
    )
    fail_signers(store, names[::-1], at=10_000)
    assert found(store) == [before]
    fail_signers(store, ["s00"], "timed out")
    assert [(each.cause, each.total) for each in found(store)] == [
        ("refused (unreachable)", 24),
        ("timed out (unreachable)", 1),
    ]


def fail_receivers(store: Store, names: Sequence[str], problem: str = "tls_failed") -> None:
    with store.database.transaction() as transaction:
        for name in names:
            events.record(transaction, EventKind.NOTIFICATION_TEST, {}, notification_id=name, now=900)
        transaction.execute("UPDATE deliveries SET tries = 1, due_at = 2000000")
        failed = "SELECT seq FROM deliveries WHERE seq NOT IN (SELECT delivery FROM attempts) ORDER BY seq"
        transaction.insert(
            "attempts",
            ("delivery", "started_at", "duration", "status", "problem", "answer"),
            [(row.seq, 1_000_000, 5, None, problem, "") for row in transaction.all(failed)],
        )


def test_receivers_that_fail_for_the_same_reason_are_one_problem(home: Path) -> None:
    names = [f"hook-{number:02}" for number in range(24)]
    fill(home, notifications=dict.fromkeys([*names, "other"]))
    with opened(home) as store:
        fail_receivers(store, names)
        fail_receivers(store, ["other"], "connection_refused")
        shown = [(each.cause, each.total, each.records) for each in found(store)]
    failed = "Nothing has arrived since an attempt failed: the receiver"
    assert shown == [
        (f"{failed} failed the TLS handshake. 24 wait.", 24, named(names[:3])),
        (f"{failed} refused the connection. 1 waits.", 1, named(["other"])),
    ]


def test_a_receiver_for_which_nothing_waits(home: Path) -> None:
    fill(home, notifications={"gone": None})
    with opened(home) as store:
        fail_receivers(store, ["gone"])
        with store.database.transaction() as transaction:
            transaction.execute("UPDATE deliveries SET state = 'dead', due_at = NULL, finished_at = 1")
        (problem,) = found(store)
    assert problem.cause == "Nothing has arrived since an attempt failed: the receiver failed the TLS handshake."


def test_more_deliveries_than_are_counted_wait(home: Path) -> None:
    names = [f"hook-{number:03}" for number in range(400)]
    fill(home, notifications=dict.fromkeys(names))
    with opened(home) as store:
        fail_receivers(store, names)
        fail_receivers(store, ["hook-000"] * 600)  # of each of 400 receivers, 500 are counted
        (problem,) = found(store)
    assert (problem.total, problem.cause.rpartition(": ")[2]) == (
        400,
        "the receiver failed the TLS handshake. At least 899 wait.",
    )


def test_low_balances_of_a_network_are_one_problem_that_names_the_lowest(store: Store) -> None:
    for number, balance in enumerate((7, 3, 9)):
        trouble(store, Incident(low_since=1000 + number, balance=balance), f"r{number}")
    with store.database.transaction() as transaction:
        balance_history.save(transaction, [(3, BalancePeriod(2000, 2060, 2, 1))])  # that of r2 is the present one
    (problem,) = found(store)
    assert (problem.state, problem.total, problem.since) == ("low_balance", 3, SINCE)
    assert problem.cause == "The lowest balance is 2 Wei, of relayer 'r2'; its minimum is 0 Wei."
    assert [each.id for each in problem.records] == ["r2", "r1", "r0"]
    trouble(store, Incident(low_since=1000, balance=1), "r3")
    (lower,) = found(store)
    assert (lower.id, lower.total, lower.records[0].id) == (problem.id, 4, "r3")


def test_low_runways_of_a_network_are_one_problem_that_names_the_first(store: Store) -> None:
    with store.database.transaction() as transaction:
        for number, minimum_at in ((1, 7200), (2, 3600)):
            snapshots.save_runway(transaction, number, StoredRunway(1, minimum_at, low_since=1000))
    (problem,) = found(store)
    assert (problem.total, [each.id for each in problem.records]) == (2, ["r1", "r0"])
    assert problem.cause == "Relayer 'r1' is expected to reach its minimum of 0 Wei first, at 1970-01-01T01:00:00Z."


def test_what_is_not_read_is_said(store: Store) -> None:
    names = [f"s{number:04}" for number in range(1001)]
    add_signers(store, names)
    fail_signers(store, names[:1000])
    assert read_problems(store.database.read, 0, None).notes == ()
    fail_signers(store, names[1000:])
    problems = read_problems(store.database.read, 0, None)
    assert ([each.total for each in problems.found], problems.notes) == (
        [1000],
        ("only the first 1,000 signers with a problem are included",),
    )


def test_of_many_problems_each_kind_is_included(home: Path) -> None:
    fill(home, relayers=[relayer(f"r{number}") for number in range(1010)])
    names = [f"r{number}" for number in range(1010)]
    with opened(home) as store:
        disabled = Incident(failed_rounds=3, failing_since=5, evidence=REFUSED)
        trouble(store, disabled, *names[:1000], change="system_disabled = true")
        assert read_problems(store.database.read, 0, None).notes == ()
        trouble(store, Incident(failed_rounds=1, failing_since=1000, evidence=REFUSED), *names[1000:1002])
        trouble(store, Incident(low_since=1000, balance=3), names[1002])
        with store.database.transaction() as transaction:
            snapshots.save_runway(transaction, 1004, StoredRunway(computed_at=1, minimum_at=7200, low_since=1000))
        problems = read_problems(store.database.read, 0, None)
    assert {each.state: each.total for each in problems.found} == {
        "disabled": 996,
        "failing": 2,
        "low_balance": 1,
        "low_runway": 1,
    }
    assert problems.notes == ("only the first 1,000 relayers with a problem are included",)


def test_within_a_scope_only_its_own_are_counted(home: Path) -> None:
    ours = [msgspec.structs.replace(relayer(f"r{number}"), signer_id=f"s{number}") for number in range(4)]
    fill(home, signers=[f"s{number}" for number in range(4)], relayers=ours)
    scope = Scope(relayers=("r1", "r3"))
    with opened(home) as store:
        fail_signers(store, [f"s{number}" for number in range(4)])
        trouble(store, Incident(low_since=1000, balance=3), "r0", "r1", "r2", "r3")
        with store.database.transaction() as transaction, transaction.within(scope):
            problems = read_problems(transaction.all, 0, scope)
    shown = {each.state: (each.total, [record.id for record in each.records]) for each in problems.found}
    assert shown == {"signer_unreachable": (2, ["s1", "s3"]), "low_balance": (2, ["r1", "r3"])}


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Served, with one failing relayer and one with a low balance, and without a monitor."""
    home: Path = tmp_path_factory.mktemp("troubled") / "home"
    fill(home, relayers=[relayer("r0"), relayer("r1")])
    with opened(home) as store:
        trouble(store, Incident(failed_rounds=1, failing_since=1000, evidence=REFUSED), "r0")
        trouble(store, Incident(low_since=1000, balance=3), "r1")
    with Running(home, token=issue(home, "root", "admin"), monitor_interval_seconds="0") as running:
        yield running


def listed(running: Running) -> list[tuple[str, str | None]]:
    """The state of each problem, and the note of its acknowledgement."""
    data = running.ask("GET", "/admin/v1/problems").json["data"]
    return [(each["state"], each["acknowledgement"] and each["acknowledgement"]["note"]) for each in data]


def test_an_acknowledged_problem_moves_down_is_counted_audited_and_can_be_opened_again(troubled: Running) -> None:
    first = troubled.ask("GET", "/admin/v1/problems").json["data"][0]
    path, told = f"/admin/v1/problems/{first['id']}", {"note": "provider told", "until": "4h"}
    done = troubled.ask("POST", f"{path}/acknowledge", told).json["data"]
    known = done.pop("acknowledgement")
    assert done == {name: value for name, value in first.items() if name != "acknowledgement"}
    assert (known["note"], known["by"]) == ("provider told", "token:root")
    assert listed(troubled) == [("low_balance", None), ("failing", "provider told")]
    page = plain(Operator(troubled.port).sign_in(troubled.token).get(""))
    assert "1 open 1 acknowledged" in page and "provider told token:root" in page
    assert troubled.ask("POST", f"{path}/reopen").json["changed"] is True
    assert troubled.ask("POST", f"{path}/reopen").json["changed"] is False
    assert listed(troubled) == [("failing", None), ("low_balance", None)]
    entries = troubled.ask("GET", "/admin/v1/audit?record=r0&order=newest").json["data"][:2]
    facts = {"state": "failing", "cause": first["cause"]}
    assert [(each["action"], each["actor"], each["after"]) for each in entries] == [
        ("problem.reopened", "token:root", facts),
        ("problem.acknowledged", "token:root", facts | {"note": "provider told", "until": known["until"]}),
    ]


def test_an_outage_of_a_key_system_is_one_line_of_the_overview_and_one_acknowledgement(troubled: Running) -> None:
    names = [f"s{number:02}" for number in range(25)]
    with opened(troubled.home) as store:
        add_signers(store, names)
        fail_signers(store, names)
    operator = Operator(troubled.port).sign_in(troubled.token)
    page = operator.get("")
    assert "s00, s01, s02 and 22 more 25 signers" in plain(page)
    assert 'href="/console/signers?check=failing"' in page.body.decode()
    (problem,) = (each for each in troubled.ask("GET", "/admin/v1/problems").json["data"] if each["total"] == 25)
    sent = operator.post(f"/problems/{problem['id']}/acknowledge", {"note": "told", "until": "4h"})
    assert sent.headers["location"] == "/console?done=acknowledged"
    assert listed(troubled) == [("failing", None), ("low_balance", None), ("signer_unreachable", "told")]
    with opened(troubled.home) as store, store.database.transaction() as transaction:
        transaction.execute("DELETE FROM signer_checks")


TOMORROW = (datetime.now(UTC) + timedelta(days=1)).date()


@pytest.mark.parametrize(("offset", "hour"), [("", 18), ("+02:00", 16), ("-05:30", 23)])
def test_a_problem_is_acknowledged_until_a_moment(troubled: Running, offset: str, hour: int) -> None:
    first = troubled.ask("GET", "/admin/v1/problems").json["data"][0]["id"]
    operator = Operator(troubled.port).sign_in(troubled.token)
    form = {"note": "provider told", "until": "4h", "moment": f"{TOMORROW}T18:00", "offset": offset}
    assert operator.post(f"/problems/{first}/acknowledge", form).headers["location"] == "/console?done=acknowledged"
    shown, at = operator.text(""), f"{TOMORROW} {hour}:{'30' if offset[3:] == ':30' else '00'}:00"
    assert f'until <time class="exact" datetime="{at.replace(" ", "T")}Z"' in shown and f">{at} UTC</time>" in shown
    assert operator.post(f"/problems/{first}/reopen").status == 303


def test_a_command_acknowledges_until_a_moment(troubled: Running) -> None:
    first, until = troubled.ask("GET", "/admin/v1/problems").json["data"][0]["id"], f"{TOMORROW}T18:00:00Z"
    done = run_command(troubled.home, "problem", "acknowledge", first, "provider told", until)
    assert done.stderr == f"acknowledged problem {first} until {until}\n"
    assert troubled.ask("GET", "/admin/v1/problems").json["data"][-1]["acknowledgement"]["until"] == until
    assert run_command(troubled.home, "problem", "reopen", first).returncode == 0


def test_an_acknowledgement_ends_at_its_time(troubled: Running) -> None:
    with opened(troubled.home) as store:
        first = found(store)[0]
        values = (first.id, "told", "token:root", 1, 100)
        names = ("problem", "note", "acknowledged_by", "acknowledged_at", "until")
        with store.database.transaction() as transaction:
            transaction.insert("acknowledgements", names, [values])
        assert [each.acknowledgement is None for each in found(store, now=99)] == [True, False]
        assert [each.acknowledgement for each in found(store, now=100)] == [None, None]


@pytest.mark.parametrize("until", ["", "soon", "2000-01-01T00:00:00Z", "9000d", "0h"])
def test_an_end_that_is_none_is_refused(troubled: Running, until: str) -> None:
    first = troubled.ask("GET", "/admin/v1/problems").json["data"][0]["id"]
    answer = troubled.ask("POST", f"/admin/v1/problems/{first}/acknowledge", {"note": "x", "until": until})
    assert (answer.status, answer.json["detail"]) == (
        400,
        "until must be a moment within a year, such as 2026-03-01T18:00:00Z, or a span such as 4h",
    )


def test_a_problem_that_is_over_cannot_be_acknowledged(troubled: Running) -> None:
    answer = troubled.ask("POST", "/admin/v1/problems/none/acknowledge", {"note": "x", "until": "4h"})
    assert (answer.status, answer.json["detail"]) == (404, "Problem not found")


def test_the_commands_list_acknowledge_and_reopen(troubled: Running) -> None:
    first = troubled.ask("GET", "/admin/v1/problems").json["data"][0]["id"]
    assert "low_balance" in run_command(troubled.home, "problem", "list").stdout
    done = run_command(troubled.home, "problem", "acknowledge", first, "on it", "2h")
    assert (done.returncode, done.stderr.startswith(f"acknowledged problem {first} until ")) == (0, True)
    assert listed(troubled)[-1] == ("failing", "on it")
    assert run_command(troubled.home, "problem", "reopen", first, "--json").returncode == 0
    assert listed(troubled)[0] == ("failing", None)


def test_an_acknowledgement_ends_when_the_problem_becomes_another_one(store: Store, home: Path) -> None:
    failing = Incident(failed_rounds=3, failing_since=1000, evidence=REFUSED)
    trouble(store, failing, "r0")
    assert run_command(home, "problem", "acknowledge", found(store)[0].id, "provider told", "4h").returncode == 0
    assert [(each.state, each.acknowledgement is None) for each in found(store)] == [("failing", False)]
    trouble(store, failing, "r0", change="system_disabled = true")
    assert [(each.state, each.acknowledgement is None) for each in found(store)] == [("disabled", True)]


def test_the_command_lists_problems_in_words(store: Store, home: Path) -> None:
    def cells(*arguments: str) -> list[list[str]]:
        lines = run_command(home, "problem", *arguments).stdout.splitlines()
        return [[cell.strip() for cell in re.split("[┃│]", line)[1:-1]] for line in lines if line[0] in "┃│"]

    names = ["records", "state", "cause", "since", "network", "acknowledged", "id"]
    trouble(store, Incident(failed_rounds=3, failing_since=1000, evidence=REFUSED), *(f"r{each}" for each in range(5)))
    fail_signers(store, ["ops"])
    (first, second), cause = found(store), "No node returned the nonce: http://node refused the connection."
    relayers = ["Relayer r0, Relayer r1, Relayer r2 and 2 more", "failing", cause, SINCE, "dev"]
    signers = ["ops", "signer_unreachable", "refused (unreachable)", SINCE, "-"]
    assert cells("list") == [names, [*relayers, "-", first.id], [*signers, "-", second.id]]
    until = utc(int(time.time()) + 86_400)
    assert run_command(home, "problem", "acknowledge", first.id, "provider told", until).returncode == 0
    told = f"by cli:{getpass.getuser()} until {until}: provider told"
    assert cells("list") == [names, [*signers, "-", second.id], [*relayers, told, first.id]]
    assert cells("reopen", first.id) == [names, [*relayers, "-", first.id]]


def test_the_lists_of_networks_and_receivers_say_which_fail(served: Running, operator: Operator) -> None:
    def named(path: str) -> list[str]:
        return re.findall(r'<td class="who-did"><a [^>]*><bdi>([^<]*)', operator.text(path))

    def state() -> list[str]:
        return re.findall(r'sepolia</bdi></a></td><td data-label="state"><[^>]*>([a-z ]+)<', operator.text("/networks"))

    nodes: dict[str, list[str]] = {"custom_rpc_urls": []}
    assert served.ask("PATCH", "/admin/v1/relayers/sepolia-1", nodes).status == 200
    assert (named("/networks?problem=any"), state()) == ([], ["ok"])
    with opened(served.home) as store:
        trouble(store, Incident(failed_rounds=1, failing_since=1000, evidence=REFUSED), "sepolia-1")
    assert (named("/networks?problem=any"), state()) == (["sepolia"], ["failing"])
    own = {"custom_rpc_urls": [{"url": "http://127.0.0.1:9"}]}
    assert served.ask("PATCH", "/admin/v1/relayers/sepolia-1", own).status == 200
    assert (named("/networks?problem=any"), state()) == ([], ["not checked"])  # it is a node of the relayer that fails
    with opened(served.home) as store:
        trouble(store, Incident(), "sepolia-1")
    listed = run_command(served.home, "notification", "list", "--problem", "none", "--json").stdout
    assert [each["id"] for each in json.loads(listed)] == named("/notifications?problem=none")


def test_every_page_gives_a_problem_the_same_beginning(served: Running) -> None:
    check = SignerCheck("ops", 9000, 5, "wrong_key_kind", "not on secp256k1", failing_since=1000)
    with opened(served.home) as store:
        trouble(store, Incident(2, 1000, REFUSED, 2000, 3), "sepolia-1")
        with store.database.transaction() as transaction:
            check_results.keep(transaction, check, "unreachable")
            snapshots.save_runway(transaction, 1, StoredRunway(computed_at=1, minimum_at=7200, low_since=3000))
    problems = served.ask("GET", "/admin/v1/problems").json["data"]
    listed = {each["state"]: each["since"] for each in problems if each["kind"] != "notification"}
    states = served.ask("GET", "/admin/v1/relayers/sepolia-1/why?probe=false").json["data"]["states"]
    assert {each["state"]: each["since"] for each in states} == listed
    assert sorted(listed) == ["failing", "low_balance", "low_runway", "signer_unreachable"]
    with opened(served.home) as store, store.database.transaction() as transaction:
        snapshots.save_incident(transaction, "sepolia-1", Incident())
        snapshots.save_runway(transaction, 1, StoredRunway(1))
        transaction.execute("DELETE FROM signer_checks")
    assert "failing" not in plain(Operator(served.port).sign_in(served.token).get("/relayers/sepolia-1"))


def test_a_relayer_that_is_newer_than_the_check_of_its_signer_is_known_to_use_it(
    served: Running, operator: Operator
) -> None:
    assert served.ask(
        "POST", "/admin/v1/signers", {"id": "early", "type": "plain", "config": {"key": "0x" + "42" * 32}}
    )
    checked = served.ask("POST", "/admin/v1/signers/early/check").json["data"]
    assert checked["explanation"] == "the key signed a challenge; no relayer uses this signer"
    document = {"id": "later", "name": "Later", "network": "sepolia", "network_type": "evm", "signer_id": "early"}
    assert served.ask("POST", "/admin/v1/relayers", document).status == 201
    page = plain(operator.get("/relayers/later"))
    assert "no relayer uses this signer" not in page
    assert "its address matches the one relayer that uses this signer" in page


def test_the_overview_shows_a_receiver_that_fails(served: Running, operator: Operator) -> None:
    broken = ("id=broken", "type=webhook", "url=http://127.0.0.1:9/hook")  # an address that the service refuses
    run_command(served.home, "notification", "create", *broken)
    run_command(served.home, "notification", "test", "broken")
    cause = "failed: an address of the receiver is not public, and RELAYDECK_WEBHOOK_ALLOW of the service"
    eventually(lambda: cause in plain(operator.get("")))
    assert "broken notification" in plain(operator.get(""))
