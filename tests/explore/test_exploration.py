"""Faults by chance on every operation and both databases, and bugs on purpose that the exploration has to find."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.explore.operations import OPERATIONS
from tests.explore.page import PAGE
from tests.explore.planted import BUGS

_SECONDS = 40
_ROOT = Path(__file__).parent.parent.parent


def explore(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """In a process of its own: the boundary is installed before Relaydeck is imported."""
    command = [sys.executable, "-m", "tests.explore", *arguments]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.prove
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
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, findings: dict[str, list[str]]) -> None:
    assert any(BUGS[name].found_as in each for each in findings[name]), findings[name]


def test_the_page_reports_operations_that_are_explored_and_nothing_found() -> None:
    explored = PAGE.read_text().partition("<!-- explored")[2].partition("<!-- /explored")[0]
    rows = [line.strip("| ").split(" | ") for line in explored.splitlines() if "| SQLite |" in line]
    names = {each.name for each in OPERATIONS}
    assert rows and {row[0] for row in rows} <= names
    assert {row[-1] for row in rows} == {"0"}
