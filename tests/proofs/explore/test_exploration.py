"""Faults by chance on every operation and both databases, and bugs on purpose that the exploration has to find."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proofs.explore.boundary import Fault
from tests.proofs.explore.explorer import Tally
from tests.proofs.explore.operations import OPERATIONS
from tests.proofs.explore.page import PAGE
from tests.proofs.explore.planted import BUGS
from tests.support.lengths import times
from tests.support.provenance import region

_SECONDS = times(40, short=20)
_ROOT = Path(__file__).parents[3]


def explore(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """In a process of its own: the boundary is installed before Relaydeck is imported."""
    command = [sys.executable, "-m", "tests.proofs.explore", *arguments]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.prove
@pytest.mark.parallel
def test_no_fault_by_chance_breaks_a_promise() -> None:
    explored = explore("--seconds", str(_SECONDS))
    print(explored.stdout)
    assert explored.returncode == 0, explored.stdout + explored.stderr


@pytest.fixture(scope="module")
def findings() -> dict[str, list[str]]:
    explored = explore("--planted")
    assert explored.returncode == 0, explored.stderr
    found: dict[str, list[str]] = json.loads(explored.stdout)
    return found


@pytest.mark.prove
@pytest.mark.parallel
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, findings: dict[str, list[str]]) -> None:
    assert any(BUGS[name].found_as in each for each in findings[name]), findings[name]


def test_the_page_reports_every_operation_on_both_databases_and_nothing_found() -> None:
    rows = [cells for cells in _explored_rows() if cells["database"]]
    declared = {(each.name, engine) for each in OPERATIONS for engine in ("SQLite", "PostgreSQL")}
    assert sorted((row["operation"], row["database"]) for row in rows) == sorted(declared)
    assert {row["each call"] for row in rows} <= {"yes", "varies", "none"}
    assert {row["findings"] for row in rows} == {"0"}


def _explored_rows() -> list[dict[str, str]]:
    table = region(PAGE.read_text(), "explored").splitlines()
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line[:1] == "|"]
    columns, _, *rows = lines
    return [dict(zip(columns, row, strict=True)) for row in rows]


def test_each_call_is_reported_as_failed_only_if_every_kind_met_it() -> None:
    tally = Tally()
    tally.calls = 2
    assert tally.coverage(["error", "crash"]) == "no"
    tally.tried = {"error", "crash"}
    tally.met = {Fault(1, "error"), Fault(2, "error"), Fault(1, "crash"), Fault(3, "crash")}
    assert tally.coverage(["error", "crash"]) == "varies"
    tally.met.add(Fault(2, "crash"))
    assert tally.coverage(["error", "crash"]) == "yes"
    tally.calls = 0
    assert tally.coverage(["error", "crash"]) == "none"
