"""What deletes asks on a terminal, and needs --yes elsewhere."""

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import DEMO
from tests.support.running import COMMAND, clean_environment, run_command


@pytest.fixture
def provisioned(home: Path) -> Path:
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    return home


def names(home: Path) -> str:
    return run_command(home, "export").stdout


def nothing() -> None:
    pass


def type_on_a_terminal(
    home: Path, answer: str, *arguments: str, meanwhile: Callable[[], object] = nothing
) -> tuple[int, str]:
    """A command whose standard input is a terminal; its exit code and its standard error.

    `meanwhile` is called between the question and the answer.
    """
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
            assert process.stderr is not None
            asked = os.read(process.stderr.fileno(), 1000).decode() if meanwhile is not nothing else ""
            meanwhile()
            os.write(master, f"{answer}\n".encode())
            _, errors = process.communicate(timeout=60)
            return process.returncode, asked + errors
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


@pytest.fixture
def less(tmp_path: Path) -> str:
    """A file that omits everything."""
    (tmp_path / "less.toml").write_text("", "utf-8")
    return str(tmp_path / "less.toml")


QUESTION = "Delete relayer sepolia-1 (Sepolia one), notification pager, signer ops, network sepolia? [y/N]: "


def test_a_prune_names_what_it_deletes_and_no_is_the_default(provisioned: Path, less: str) -> None:
    before = names(provisioned)
    code, errors = type_on_a_terminal(provisioned, "", "apply", less, "--prune")
    assert (code, errors) == (1, f"{QUESTION}relaydeck: not confirmed\nNothing was changed.\n")
    assert names(provisioned) == before


def test_a_confirmed_prune_is_made(provisioned: Path, less: str) -> None:
    assert type_on_a_terminal(provisioned, "y", "apply", less, "--prune") == (0, QUESTION)
    assert "sepolia" not in names(provisioned)


def test_a_prune_without_anything_to_delete_does_not_ask(provisioned: Path, tmp_path: Path) -> None:
    (tmp_path / "same.toml").write_text(DEMO, "utf-8")
    assert type_on_a_terminal(provisioned, "", "apply", str(tmp_path / "same.toml"), "--prune") == (0, "")


def test_a_prune_deletes_only_what_it_named(provisioned: Path, less: str, tmp_path: Path) -> None:
    """Another file is applied between the question and the answer."""
    more = DEMO.replace("sepolia-1", "sepolia-2").replace("Sepolia one", "Sepolia two")
    code, errors = type_on_a_terminal(
        provisioned,
        "y",
        "apply",
        less,
        "--prune",
        meanwhile=lambda: run_command(provisioned, "apply", "-", stdin=more),
    )
    assert code == 1
    assert errors.startswith(f"{QUESTION}relaydeck: the plan is not the one that was reviewed\n")
    assert {"sepolia-1", "sepolia-2"} <= set(names(provisioned).split('"'))
