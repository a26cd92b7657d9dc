"""The checks of the fleet: disabled relayers and deliveries that were given up."""

from pathlib import Path

from relaydeck.doctor.finding import Finding
from relaydeck.doctor.fleet import fleet_findings
from relaydeck.settings import Settings
from tests.conftest import DEMO
from tests.running import run_command
from tests.seeding import fill, opened, relayer

DISABLE = "UPDATE relayers SET system_disabled = true"


def found(home: Path, *changes: str) -> list[Finding]:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    with opened(home) as store:
        with store.database.transaction() as transaction:
            for sql in changes:
                transaction.execute(sql)
        return [each for each in fleet_findings(store.database, Settings(home=home)) if each.subject != "signers"]


def test_a_fleet_without_a_problem(home: Path) -> None:
    assert found(home) == [
        Finding("ok", "relayers", "no relayer is disabled"),
        Finding("ok", "deliveries", "no delivery was given up"),
    ]


def test_a_disabled_relayer_is_named(home: Path) -> None:
    remark = "'sepolia-1' is disabled; run 'relaydeck relayer why ID'"
    assert found(home, DISABLE)[0] == Finding("FAIL", "relayers", remark)


def test_of_many_disabled_relayers_the_rest_is_counted(home: Path) -> None:
    fill(home, relayers=[relayer(f"r{number}") for number in range(7)])
    with opened(home) as store:
        with store.database.transaction() as transaction:
            transaction.execute(DISABLE)
        first = next(fleet_findings(store.database, Settings(home=home)))
    remark = "'r0', 'r1', 'r2', 'r3', 'r4' and 2 more are disabled; run 'relaydeck relayer why ID'"
    assert first == Finding("FAIL", "relayers", remark)


def test_deliveries_that_were_given_up_are_counted(home: Path) -> None:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    run_command(home, "notification", "test", "pager")
    remark = "1 delivery was given up; 'relaydeck event replay --all-dead' sends them again"
    assert found(home, "UPDATE deliveries SET state = 'dead'")[-1] == Finding("warn", "deliveries", remark)
