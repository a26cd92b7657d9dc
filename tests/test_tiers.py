"""Every test is in exactly one tier, and a test that does more than its tier allows fails."""

import os
import re
import shlex
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer
from tests.support.tiers import may_be_quick, tier

ROOT = Path(__file__).parent.parent
_PYTEST = re.compile(r"-m pytest (.*?)(?: \|\| .*)?$", re.MULTILINE)


def test_a_test_that_starts_a_process_is_not_quick(request: pytest.FixtureRequest) -> None:
    subprocess.run(["true"], check=True)
    assert tier(request.node) == "test"


def test_a_test_is_in_the_tier_of_its_fixtures(postgres: PostgresServer, request: pytest.FixtureRequest) -> None:
    assert (tier(request.node), postgres.ask("SELECT 1")) == ("test", [(1,)])


@pytest.mark.parametrize(
    ("module", "quick"), [("test_fields.py", True), ("test_serve.py", False), ("store/test_copying.py", False)]
)
def test_a_module_may_be_quick_unless_an_import_starts_processes(module: str, quick: bool) -> None:
    assert may_be_quick(ROOT / "tests" / module) == quick


def test_a_test_may_start_no_tool_unless_it_is_in_their_tier(request: pytest.FixtureRequest) -> None:
    tool = Path(sys.prefix, "bin", "pgbouncer")  # no constant, which would put this test in their tier
    assert tier(request.node) == "test"
    with pytest.raises(RuntimeError, match="a test of the tier test starts pgbouncer"):
        subprocess.run([tool], check=True)


@pytest.mark.prove
@pytest.mark.parallel
def test_the_tiers_have_every_test_once() -> None:
    commands = subprocess.run(
        ["make", "-n", "quick", "test", "prove"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    quick, test, tools, *proofs = (collected(*shlex.split(each)) for each in _PYTEST.findall(commands.stdout))
    assert quick < test
    assert sorted(chain(test, tools, *proofs)) == sorted(collected("-m", ""))


def collected(*options: str) -> set[str]:
    """The tests that pytest chooses with these options of a make target."""
    command = [sys.executable, "-m", "pytest", *options, "-n", "0", "--collect-only", "--verbosity=-1"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if "::" in line}
