"""Writes `docs/reference/cli.md` from the commands themselves."""

from collections.abc import Iterator

import click

from relaydeck.cli.commands import cli

_INTRODUCTION = """# Command line

Every command, printed from the program by `make docs`; a test keeps this page current. `relaydeck COMMAND --help` shows
the same text. Commands other than `serve` work with and without a running service: they open the same database. Those
with `--server` also work [on a server](../remote.md).
"""


def cli_page() -> str:
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
            yield from _commands(each, command.commands[each], context)


def _section(path: str, command: click.Command, context: click.Context) -> str:
    level = "##" if isinstance(command, click.Group) or context.parent is None or not context.parent.parent else "###"
    help_text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"{level} {path}\n\n```text\n{help_text}\n```\n"
