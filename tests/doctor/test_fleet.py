"""The checks of the fleet: disabled relayers, and deliveries that failed or were given up."""

import json
import re
import time
from pathlib import Path

import pytest

from relaydeck.doctor import Finding, Result
from relaydeck.doctor.database import fleet_findings, memory_finding
from relaydeck.settings.model import Settings
from tests.conftest import DEMO
from tests.support.running import Running, run_command
from tests.support.seeding import fill, issue, opened, relayer

DISABLE = "UPDATE relayers SET system_disabled = true"


def found(home: Path, *changes: str) -> list[Finding]:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    with opened(home) as store:
        with store.database.transaction() as transaction:
            for sql in changes:
                transaction.execute(sql)
        findings = list(fleet_findings(store.database, Settings(home=home), time.time()))
    return [each for each in findings if each.subject not in ("signers", "growth", "memory")]


def test_a_fleet_without_a_problem(home: Path) -> None:
    assert found(home) == [
        Finding("ok", "relayers", "no relayer is disabled"),
        Finding("ok", "deliveries", "no delivery was given up"),
        Finding("ok", "notifications", "no delivery waits after a failed attempt"),
    ]


def test_a_relayer_without_any_node_is_reported_by_its_network(home: Path) -> None:
    without = "UPDATE {} SET sealed_rpc_urls = NULL"
    assert found(home, without.format("networks"))[1].subject == "deliveries"  # the relayer has a node of its own
    remark = "relayers of 'sepolia' have no node: they are not checked, and estimates fail; add rpc_urls to the network"
    assert found(home, without.format("networks"), without.format("relayers"))[1] == Finding("warn", "relayers", remark)


def test_a_signer_without_a_driver_counts_as_it_does_for_signer_check(home: Path) -> None:
    """Also when it was checked while its type had a driver."""
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    assert "1 signer checked, 0 failed" in run_command(home, "signer", "check", "ops").stderr
    passed = "ok    signers: 1 signer passed the latest check"
    assert passed in run_command(home, "doctor").stdout
    alone, every, doctor = (
        run_command(home, *command, driver_plain="")
        for command in (("signer", "check", "ops"), ("signer", "check", "--all"), ("doctor",))
    )
    left_out = "note: 1 signer left out: no driver is bound to the type\n0 signers checked, 0 failed\n"
    assert [alone.stderr, alone.returncode] == [left_out, 1]
    assert [every.stderr, every.returncode] == [left_out, 0]
    assert [line for line in doctor.stdout.splitlines() if " signers: " in line] == [
        "warn  signers: 1 signer of the type plain cannot be checked; bind a driver: RELAYDECK_DRIVER_PLAIN"
    ]


def test_an_unknown_relayer_in_the_settings_of_metrics_is_named(home: Path) -> None:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    found = run_command(home, "doctor", metrics_relayers="sepolia-1,sepolia-l").stdout
    assert "warn  relayers: RELAYDECK_METRICS_RELAYERS names sepolia-l, which no relayer has\n" in found


def test_a_disabled_relayer_is_named(home: Path) -> None:
    remark = "'sepolia-1' is disabled; run 'relaydeck relayer why ID'"
    assert found(home, DISABLE)[0] == Finding("FAIL", "relayers", remark)


def test_of_many_disabled_relayers_the_rest_is_counted(home: Path) -> None:
    fill(home, relayers=[relayer(f"r{number}") for number in range(7)])
    with opened(home) as store:
        with store.database.transaction() as transaction:
            transaction.execute(DISABLE)
        first = next(fleet_findings(store.database, Settings(home=home), time.time()))
    remark = "'r0', 'r1', 'r2', 'r3', 'r4' and 2 more are disabled; run 'relaydeck relayer why ID'"
    assert first == Finding("FAIL", "relayers", remark)


def test_deliveries_that_were_given_up_are_counted(home: Path) -> None:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    run_command(home, "notification", "test", "pager")
    remark = "1 delivery was given up; 'relaydeck event replay --all-dead' sends it again"
    assert found(home, "UPDATE deliveries SET state = 'dead'")[1] == Finding("warn", "deliveries", remark)
    gone = found(home, "UPDATE deliveries SET notification_id = 'gone'")[1]
    assert gone == Finding("ok", "deliveries", "no delivery was given up")


FAIL = "UPDATE deliveries SET tries = 1, due_at = 1900000005000"
ATTEMPTS = (
    "INSERT INTO attempts (delivery, started_at, duration, status, problem, answer)"
    " SELECT seq, 1900000000000, 1, NULL, 'connection_refused', '' FROM deliveries"
)
SEE = "see 'relaydeck event deliveries --state pending'"


def test_a_failing_receiver_is_named_before_a_delivery_is_given_up(home: Path) -> None:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    for _ in range(2):
        run_command(home, "notification", "test", "pager")
    failure = "an attempt failed at 2030-03-17T17:46:40Z: the receiver refused the connection"
    assert found(home, FAIL, ATTEMPTS)[1:] == [
        Finding("ok", "deliveries", "no delivery was given up"),
        Finding("warn", "notifications", f"2 deliveries to 'pager' are waiting; {failure}; {SEE}"),
    ]
    (_, _, one) = found(home, "DELETE FROM deliveries WHERE seq = 1", "UPDATE attempts SET status = 500, problem = ''")
    remark = (
        "1 delivery to 'pager' is waiting; an attempt failed at 2030-03-17T17:46:40Z: HTTP 500 Internal Server Error"
    )
    assert one == Finding("warn", "notifications", f"{remark}; {SEE}")
    (_, _, dead) = found(home, "UPDATE deliveries SET state = 'dead', due_at = NULL, finished_at = 1")
    failed = (
        "nothing arrived at 'pager' since an attempt failed at 2030-03-17T17:46:40Z: HTTP 500 Internal Server Error"
    )
    assert dead == Finding("warn", "notifications", failed)


def test_of_many_failing_receivers_five_are_named(home: Path) -> None:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    for number in range(6):
        run_command(home, "notification", "create", f"id=n{number}", "type=webhook", "url=https://example.com")
        run_command(home, "notification", "test", f"n{number}")
    *named, last = found(home, FAIL, ATTEMPTS)[2:]
    assert [each.remark.partition("'")[2].partition("'")[0] for each in named] == ["n0", "n1", "n2", "n3", "n4"]
    remark = f"deliveries to other receivers wait after failed attempts, too; {SEE}"
    assert last == Finding("warn", "notifications", remark)


def growth(home: Path) -> Finding:
    findings = [Finding(**each) for each in json.loads(run_command(home, "doctor", "--json").stdout)]
    return next(each for each in findings if each.subject == "growth")


def test_without_anything_new_nothing_grows(home: Path) -> None:
    fill(home, relayers=[relayer("r")])
    assert growth(home) == Finding("ok", "growth", "nothing was created in the last day")


def test_what_was_created_is_shown_with_its_creator(home: Path) -> None:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    found = growth(home)
    assert found.result == "ok"
    assert re.fullmatch(r"in the last day 'cli:\w+' created 1 \w+, 1 \w+, 1 \w+, 1 \w+", found.remark), found.remark


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_a_token_that_stores_40_mb_is_in_the_log_the_metrics_and_the_findings(
    home: Path, engine: str, lend: object
) -> None:
    lend(home, engine)  # type: ignore[operator]
    padding = {"padding": "0" * 62_500}
    large = {"type": "provider_b_kms", "config": {"key": padding, "service_account": padding}}
    body = json.dumps(large).encode()
    with Running(home, token=issue(home, "greedy", "api"), log_format="json") as running:
        answers = [running.ask("POST", "/api/v1/signers", body).status for _ in range(320)]
        refused = running.ask("POST", "/api/v1/signers", body.replace(b"provider_b_kms", b"unknown")).status
        line = f'relaydeck_stored_bytes_total{{route="create_signer"}} {320 * len(body)}\n'
        while line not in running.ask("GET", "/metrics").body.decode():  # counted in batches, after the response
            assert running.process.poll() is None
        logged = [json.loads(each) for each in running.log.splitlines() if "stores much" in each]
    assert (answers, refused) == ([201] * 320, 400)
    (entry,) = logged
    assert {name: entry[name] for name in ("level", "event", "token", "stored")} == {
        "level": "warning",
        "event": "a token stores much: see 'relaydeck doctor'",
        "token": "greedy",
        "stored": "more than 16777216 bytes in a minute",
    }
    remark = "in the last day 'token:greedy' created 320 signers (40.0 MB)"
    found = growth(home)
    assert (found.result, found.remark.startswith(remark)) == ("warn", True), found


def test_a_plan_stores_nothing(home: Path) -> None:
    document = {"signers": [{"id": "ops", "type": "plain", "config": {"key": "0x" + "11" * 32}}]}
    plan, apply = (json.dumps({"document": document, "plan_only": each}).encode() for each in (True, False))
    with Running(home, token=issue(home, "ci", "admin")) as running:
        answers = [running.ask("POST", "/admin/v1/apply", each).status for each in (plan, plan, apply)]
        line = re.compile(r'relaydeck_stored_bytes_total\{route="admin"\} ([1-9]\d*)\n')
        while (found := line.search(running.ask("GET", "/metrics").body.decode())) is None:
            assert running.process.poll() is None
    assert (answers, int(found[1])) == ([200, 200, 200], len(apply))


@pytest.mark.parametrize(
    ("limit", "result", "outlook"),
    [
        (2_000_000_000, "ok", ""),
        (1_600_000_000, "warn", "; raise the limit, or serve with fewer workers"),
        (512_000_000, "FAIL", ": the kernel will kill workers; raise the limit, or serve with fewer workers"),
    ],
)
def test_what_the_fleet_needs_is_compared_with_the_memory_limit(limit: int, result: Result, outlook: str) -> None:
    held = "2 workers with 1000000 relayers and 1 signer need about 1430 MB"
    remark = f"{held}, and the cgroup may have {limit // 1_000_000} MB{outlook}"
    assert memory_finding(limit, 2, 1_000_000, 1) == Finding(result, "memory", remark)
