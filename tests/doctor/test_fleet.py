"""The checks of the fleet: disabled relayers and deliveries that were given up."""

from pathlib import Path

import pytest

from relaydeck.doctor.finding import Finding
from relaydeck.doctor.fleet import fleet_findings
from relaydeck.settings import Settings
from tests.conftest import DEMO
from tests.running import run_command
from tests.seeding import opened

REASON = '{"details": "no RPC URL answered", "type": "NonceSyncFailed"}'


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


@pytest.mark.parametrize(
    ("stored", "reason"), [(f"'{REASON}'", "no RPC URL answered"), ("NULL", "no reason is stored")]
)
def test_a_disabled_relayer_is_named_with_its_reason(home: Path, stored: str, reason: str) -> None:
    change = f"UPDATE relayers SET system_disabled = true, disabled_reason = {stored} WHERE id = 'sepolia-1'"
    remark = f"is disabled: {reason}; see 'relaydeck relayer why sepolia-1'"
    assert found(home, change)[0] == Finding("FAIL", "relayer 'sepolia-1'", remark)


def test_of_many_disabled_relayers_the_rest_is_counted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relaydeck.doctor.fleet._MOST_NAMED", 0)
    findings = found(home, f"UPDATE relayers SET system_disabled = true, disabled_reason = '{REASON}'")
    assert findings[0] == Finding("FAIL", "relayers", "1 more are disabled")


def test_deliveries_that_were_given_up_are_counted(home: Path) -> None:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    run_command(home, "notification", "test", "pager")
    remark = "1 delivery was given up; 'relaydeck event replay --all-dead' sends them again"
    assert found(home, "UPDATE deliveries SET state = 'dead'")[-1] == Finding("warn", "deliveries", remark)
