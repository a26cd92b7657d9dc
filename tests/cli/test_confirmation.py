"""What deletes asks on a terminal, and needs --yes elsewhere."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.conftest import DEMO
from tests.running import COMMAND, clean_environment, run_command


@pytest.fixture
def provisioned(home: Path) -> Path:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    return home


def names(home: Path) -> str:
    return run_command(home, "export").stdout


def type_on_a_terminal(home: Path, answer: str, *arguments: str) -> tuple[int, str]:
    """A command whose standard input is a terminal; its exit code and its standard error."""
    master, slave = pty.openpty()
    try:
        with subprocess.Popen(
            [*COMMAND, *arguments],
            env=clean_environment(home),
            stdin=slave,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            os.write(master, f"{answer}\n".encode())
            _, errors = process.communicate(timeout=60)
            return process.returncode, errors
    finally:
        os.close(master)
        os.close(slave)


def test_without_a_terminal_a_delete_needs_yes(provisioned: Path) -> None:
    before = names(provisioned)
    done = run_command(provisioned, "relayer", "delete", "sepolia-1")
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "relaydeck: to delete relayer sepolia-1 without a terminal, pass --yes\nNothing was changed.\n",
    )
    assert names(provisioned) == before


def test_without_a_terminal_a_prune_needs_yes_and_a_plan_of_it_does_not(provisioned: Path, tmp_path: Path) -> None:
    before = names(provisioned)
    (tmp_path / "less.toml").write_text("", "utf-8")
    done = run_command(provisioned, "apply", str(tmp_path / "less.toml"), "--prune")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("without a terminal, pass --yes\nNothing was changed.\n")
    assert names(provisioned) == before
    planned = run_command(provisioned, "apply", str(tmp_path / "less.toml"), "--prune", "--plan")
    assert planned.stdout.splitlines()[-2] == "to remove: 1 relayer, 1 notification, 1 signer, 1 network"


def test_a_delete_asks_on_a_terminal_and_no_is_the_default(provisioned: Path) -> None:
    code, errors = type_on_a_terminal(provisioned, "", "relayer", "delete", "sepolia-1")
    assert (code, errors) == (
        1,
        "Delete relayer sepolia-1? [y/N]: relaydeck: not confirmed\nNothing was changed.\n",
    )
    assert "sepolia-1" in names(provisioned)


def test_a_confirmed_delete_is_made(provisioned: Path) -> None:
    code, errors = type_on_a_terminal(provisioned, "y", "relayer", "delete", "sepolia-1")
    assert (code, errors) == (0, "Delete relayer sepolia-1? [y/N]: deleted relayer sepolia-1\n")
    assert "sepolia-1" not in names(provisioned)
