"""A refused request leaves nothing in memory, even while the garbage collector does not run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.http.refused_requests import kinds

AMOUNT = 1000
KINDS = list(kinds("", ""))


def left_behind(folder: Path, amount: int) -> dict[str, Any]:
    """For each kind, the status that nearly all of its requests got and what is left of them in memory."""
    command = [sys.executable, "-m", "tests.http.refused_requests", str(folder / "home"), str(amount)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    return {name: [status, left] for name, status, left in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return left_behind(tmp_path_factory.mktemp("refused"), AMOUNT)


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_request_leaves_nothing_in_memory(found: dict[str, Any], kind: str) -> None:
    assert found[kind] == [int(kind[:3]), {}]
