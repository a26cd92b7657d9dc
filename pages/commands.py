"""`docs/reference/cli.md`, printed from the commands themselves."""

from collections.abc import Iterator
from pathlib import Path

import click

from relaydeck.cli.commands import cli

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
_INTRODUCTION = """# Command line

Every command, printed from the program by `make docs`; a test keeps this page current. `relaydeck COMMAND --help` shows
the same text. Most commands work with and without a running service: they open the same database. Those
with `--server` also work [on a server](../remote.md). All have `--json`; [JSON output](json.md) describes what it
prints.

A command that deletes asks first. Where there is no terminal to ask on, such as in a pipeline, it needs `--yes`. A
table that is not printed on a terminal is as wide as its longest row, so that a record is always one line.

## Shell completion

Press Tab to complete commands, options, and the ids or names of stored records, once the shell has loaded the
completion. To load it in every new shell, add this line:

| shell | file | line |
|---|---|---|
| Bash 4.4 or newer | `~/.bashrc` | `eval "$(_RELAYDECK_COMPLETE=bash_source relaydeck)"` |
| Zsh | `~/.zshrc` | `eval "$(_RELAYDECK_COMPLETE=zsh_source relaydeck)"` |
| Fish | `~/.config/fish/completions/relaydeck.fish` | `_RELAYDECK_COMPLETE=fish_source relaydeck \\| source` |
"""


def page() -> str:
    sections = [_section(name, command, context) for name, command, context in _commands("relaydeck", cli, None)]
    return "\n".join([_INTRODUCTION, *sections])


def _commands(
    name: str, command: click.Command, parent: click.Context | None
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """A command and everything below it, in the order of `--help`."""
    context = click.Context(command, parent, name, terminal_width=100, **command.context_settings)
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            if not command.commands[each].hidden:
                yield from _commands(each, command.commands[each], context)


def _section(path: str, command: click.Command, context: click.Context) -> str:
    level = "##" if isinstance(command, click.Group) or context.parent is None or not context.parent.parent else "###"
    help_text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"{level} {path}\n\n```text\n{help_text}\n```\n"
