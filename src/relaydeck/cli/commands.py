"""The `relaydeck` command line. The module of a command loads when somebody names it: `relaydeck --help` needs none."""

from collections.abc import Iterator, Mapping
from pkgutil import resolve_name
from typing import Any

import click
from click.shell_completion import CompletionItem

from relaydeck import __version__

# The module of each command, and what `relaydeck --help` says about it.
_COMMANDS = {
    "apply": (
        "relaydeck.cli.apply_commands",
        "Create and change networks, signers, notifications and relayers from a file.",
    ),
    "audit": ("relaydeck.cli.audit_commands", "Read the audit log, and verify that nobody has altered it."),
    "backup": ("relaydeck.cli.backup_commands", "Back up everything to one file, and test that it can be restored."),
    "conform": ("relaydeck.cli.conformance", "Check whether a server implements the interface."),
    "console": ("relaydeck.cli.console_link", "Print a link that signs you in to the console."),
    "db": ("relaydeck.cli.database_commands", "Migrate the database to this version's schema, or move it."),
    "demo": ("relaydeck.cli.demo", "Try Relaydeck in a temporary folder: serve, apply, estimate, deliver a webhook."),
    "diagnose": ("relaydeck.cli.diagnose", "Write a file for those who help you; it contains no secrets."),
    "doctor": ("relaydeck.cli.doctor", "Check the installation, and say what to do about each problem."),
    "drain": ("relaydeck.cli.drain", "Stop the running service behind a load balancer without a failed request."),
    "estimate": ("relaydeck.cli.estimate", "Compute a fee estimate and print every step."),
    "event": ("relaydeck.cli.event_commands", "List events and their deliveries, and send them again."),
    "export": ("relaydeck.cli.apply_commands", "Print the stored records as an apply file."),
    "find": ("relaydeck.cli.record_commands", "Find records by part of an id, a name or an address."),
    "init": ("relaydeck.cli.examples", "Write a commented apply file to start from."),
    "key": ("relaydeck.cli.database_commands", "Manage the keys that seal secrets at rest."),
    "login": ("relaydeck.cli.login", "Store a server and a token, or your session, as a profile."),
    "logout": ("relaydeck.cli.login", "Remove a stored profile."),
    "network": ("relaydeck.cli.record_commands", "List, show, create, change and delete networks."),
    "notification": ("relaydeck.cli.event_commands", "List, show, create, change and delete notifications."),
    "problem": ("relaydeck.cli.record_commands", "List current problems, and acknowledge them."),
    "profile": ("relaydeck.cli.login", "List the servers that 'relaydeck login' has stored."),
    "proposal": ("relaydeck.cli.proposal_commands", "List, show, approve and reject proposed changes."),
    "protection": (
        "relaydeck.cli.proposal_commands",
        "Protect records, so that somebody else has to approve their changes.",
    ),
    "relayer": ("relaydeck.cli.relayer_commands", "List, show, create, change and delete relayers."),
    "restore": ("relaydeck.cli.backup_commands", "Restore a backup into a new database."),
    "serve": ("relaydeck.cli.serve", "Serve the HTTP interface until SIGTERM or Ctrl-C."),
    "signer": ("relaydeck.cli.record_commands", "List, show, create, check and delete signers."),
    "token": ("relaydeck.cli.token_commands", "Create, list, rotate and revoke access tokens."),
    "whoami": ("relaydeck.cli.token_commands", "Show who you are, your role, and when your access ends."),
}


class _LazyCommands(Mapping[str, click.Command]):
    def __getitem__(self, name: str) -> click.Command:
        module, summary = _COMMANDS[name]
        command: click.Command = resolve_name(f"{module}:{name}")
        command.help = command.help or summary  # a group says no more
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _Commands(click.Group):
    """Lists and completes the commands without loading their modules."""

    def __init__(self, **options: Any) -> None:
        super().__init__(commands=_LazyCommands(), **options)  # type: ignore[arg-type]  # nothing is added to it

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [(name, summary) for name, (_, summary) in _COMMANDS.items() if name.startswith(incomplete)]
        return [CompletionItem(name, help=summary) for name, summary in found] + click.Command.shell_complete(
            self, ctx, incomplete
        )


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with 'relaydeck demo'. Then 'relaydeck init', 'relaydeck serve' and, in another terminal, "
    "'relaydeck apply'.",
)
@click.version_option(__version__, message="relaydeck %(version)s")
def cli() -> None:
    """Manage relayers, their signers and their notifications, and serve them over HTTP."""
