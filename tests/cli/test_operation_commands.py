"""Commands that are derived from operations."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from relaydeck.api.operations import EXPLAIN_RELAYER
from relaydeck.cli.operation_commands import derived_command
from tests.conftest import DEMO
from tests.support.running import run_command

_WHY = derived_command(EXPLAIN_RELAYER, "why")


@pytest.fixture
def provisioned(home: Path) -> Path:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    return home


def test_a_record_with_one_field_is_printed_as_its_value(provisioned: Path) -> None:
    shown = run_command(provisioned, "audit", "head").stdout
    assert {"head": shown.removesuffix("\n")} == json.loads(run_command(provisioned, "audit", "head", "--json").stdout)


def test_a_list_is_a_table(provisioned: Path) -> None:
    listed = json.loads(run_command(provisioned, "signer", "drivers", "--json").stdout)
    shown = run_command(provisioned, "signer", "drivers").stdout
    assert [each for each in listed if each["driver"] not in shown or each["type"] not in shown] == []
    assert listed and [each.strip() for each in shown.splitlines()[1].split("┃")[1:-1]] == list(listed[0])


def test_the_identifier_and_the_query_are_sent(provisioned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYDECK_HOME", str(provisioned))
    arguments = ["sepolia-1", "--probe", "false"]
    done = CliRunner().invoke(_WHY, [*arguments, "--json"], catch_exceptions=False)
    assert json.loads(done.stdout)["nodes"] == []
    assert "│ nodes  " in CliRunner().invoke(_WHY, arguments, catch_exceptions=False).stdout


def test_help_says_what_the_operation_does() -> None:
    shown = CliRunner().invoke(_WHY, ["--help"]).stdout
    assert "Explain a relayer's state." in shown and "--probe [true|false]" in shown
