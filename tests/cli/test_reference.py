"""`docs/reference/cli.md` is printed from the commands."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from pages.commands import PAGE, page
from relaydeck.cli.commands import cli


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `make docs`"


def completed(**environment: str) -> str:
    """What the command answers a shell."""
    program = "import sys; from relaydeck.cli import main; sys.argv[0] = 'relaydeck'; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=dict(os.environ) | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_that_the_page_names_exists(shell: str) -> None:
    (variable,) = set(re.findall(rf"(_RELAYDECK_COMPLETE)={shell}_source", PAGE.read_text("utf-8")))
    assert f"{variable}={shell}_complete" in completed(**{variable: f"{shell}_source"})


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("relaydeck rel", ["relayer"]),
        ("relaydeck relayer p", ["pause"]),
        ("relaydeck token create --kind a", ["api", "admin"]),
    ],
)
def test_commands_and_choices_are_completed(typed: str, offered: list[str]) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    found = completed(_RELAYDECK_COMPLETE="bash_complete", **words)
    assert [line.partition(",")[2] for line in found.splitlines()] == offered


def groups(of: click.Group) -> Iterator[click.Group]:
    yield of
    for each in of.commands.values():
        if isinstance(each, click.Group):
            yield from groups(each)


@pytest.mark.parametrize("group", [*groups(cli)], ids=lambda group: group.name)
def test_no_summary_of_a_command_is_cut_off(group: click.Group) -> None:
    names = cli.context_settings["help_option_names"]  # the command keeps those that it was first asked with
    context = click.Context(group, info_name="relaydeck", terminal_width=80, help_option_names=names)
    shown = group.get_help(context).partition("Commands:")[2]
    assert [line for line in shown.splitlines() if line.endswith("...")] == []
