"""The commands about networks, signers, notifications, relayers, events and the audit log."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from relaydeck.cli.confirmation import asks_first
from relaydeck.cli.filter_options import filters, given
from relaydeck.cli.options import anywhere, as_json

_FIELDS = (
    "FIELD=TEXT sets a string, FIELD:=JSON any other value, FIELD=@FILE the content of a file (@-: standard input)."
)


def _limit(default: int) -> Callable[..., Any]:
    return click.option("--limit", type=click.IntRange(1), default=default, show_default=True, help="Most to show.")


def _order(command: Callable[..., Any]) -> Callable[..., Any]:
    choices = click.Choice(["newest", "oldest"])
    return click.option("--order", type=choices, default="newest", show_default=True, help="Which comes first.")(
        command
    )


def _identified(singular: str) -> str:
    """A network has a name; the other records are found by their id only, whatever they are called."""
    return "network called NAME" if singular == "network" else f"{singular} with this ID"


def _identity(singular: str) -> Callable[..., Any]:
    return click.argument("name", metavar="NAME" if singular == "network" else "ID")


def _group(singular: str) -> click.Group:
    change = "check" if singular == "signer" else "change"  # key material is never changed in place
    group = click.Group(singular, help=f"List, show, create, {change} and delete {singular}s.")
    _add_reads(group, singular)
    _add_create(group, singular)
    if change == "change":
        _add_update(group, singular)
    _add_delete(group, singular)
    return group


def _add_reads(group: click.Group, singular: str) -> None:
    @group.command("list", help=f"List {singular}s, oldest first.")
    @filters(f"{singular}s")
    @_limit(1000)
    @as_json(singular.capitalize(), many=True)
    @anywhere
    def list_all(limit: int, as_json: bool, **query: str | None) -> None:
        _actions().show_all(f"{singular}s", given(query), limit, as_json)

    @group.command("show", help=f"Show the {_identified(singular)}.")
    @_identity(singular)
    @as_json(singular.capitalize())
    @anywhere
    def show(name: str, as_json: bool) -> None:
        _actions().show(f"{singular}s", name, as_json)


class _DocumentCommand(click.Command):
    """Takes the fields of a record, which its help lists. The name of the group is that of the record."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from relaydeck.cli.field_help import write_fields

        assert ctx.parent is not None
        write_fields(formatter, f"{ctx.parent.info_name}s", update=self.name == "update")  # type: ignore[arg-type]
        super().format_epilog(ctx, formatter)


def _add_create(group: click.Group, singular: str) -> None:
    @group.command("create", cls=_DocumentCommand, help=f"Create a {singular}. {_FIELDS}")
    @click.argument("fields", nargs=-1)
    @click.option("--from", "source", default="", help="Start from the JSON object in this file; - for standard input.")
    @as_json(singular.capitalize())
    @anywhere
    def create(fields: tuple[str, ...], source: str, as_json: bool) -> None:
        _actions().create(f"{singular}s", source, fields, as_json)


def _add_update(group: click.Group, singular: str) -> None:
    @group.command(
        "update",
        cls=_DocumentCommand,
        help=f"Change the {_identified(singular)}. {_FIELDS} FIELD:=null removes a value.",
    )
    @_identity(singular)
    @click.argument("fields", nargs=-1)
    @click.option(
        "--from", "source", default="", help="Start from the JSON merge patch in this file; - for standard input."
    )
    @as_json(singular.capitalize())
    @anywhere
    def update(name: str, fields: tuple[str, ...], source: str, as_json: bool) -> None:
        _actions().update(f"{singular}s", name, source, fields, as_json)


def _add_delete(group: click.Group, singular: str) -> None:
    @group.command("delete", help=f"Delete the {_identified(singular)}. Refused while another record refers to it.")
    @_identity(singular)
    @asks_first("Do not ask. Required where there is no terminal.")
    @as_json("Deleted")
    @anywhere
    def delete(name: str, yes: bool, as_json: bool) -> None:
        _actions().delete(f"{singular}s", name, yes, as_json)


def _actions() -> Any:
    from relaydeck.cli import resource_actions

    return resource_actions


network, signer, notification, relayer = map(_group, ("network", "signer", "notification", "relayer"))


@signer.command(epilog="Example:  relaydeck signer check --all --json")
@click.argument("signer_id", metavar="[ID]", default="")
@click.option("--all", "every", is_flag=True, help="Every signer whose type has a driver.")
@as_json("SignerCheckReport", many=True, remark=", each with `signer_id`")
@anywhere
def check(signer_id: str, every: bool, as_json: bool) -> None:
    """Check that the signer with this ID reaches its key.

    With --all: every signer whose type has a driver. The key signs a random challenge, and its address is compared with
    the relayers that use the signer. The result is saved and shown with the signer. Exits with 1 when a check does not
    succeed.
    """
    if bool(signer_id) == every:
        raise click.UsageError("give either an ID or --all")
    from relaydeck.cli import signer_checks

    if every:
        signer_checks.check_all(as_json)
    else:
        signer_checks.check_one(signer_id, as_json)


@relayer.command()
@click.argument("relayer_id", metavar="ID")
@as_json("PauseResult")
@anywhere
def pause(relayer_id: str, as_json: bool) -> None:
    """Pause the relayer with this ID."""
    from relaydeck.cli import relayer_state

    relayer_state.pause(relayer_id, as_json)


@relayer.command()
@click.argument("relayer_id", metavar="ID")
@as_json("PauseResult")
@anywhere
def resume(relayer_id: str, as_json: bool) -> None:
    """Resume a paused relayer."""
    from relaydeck.cli import relayer_state

    relayer_state.resume(relayer_id, as_json)


@relayer.command()
@click.argument("relayer_id", metavar="ID")
@as_json("Explanation")
@anywhere
def why(relayer_id: str, as_json: bool) -> None:
    """Explain the state of the relayer with this ID. It shows causes, times, and how the nodes respond now."""
    from relaydeck.cli import relayer_state

    relayer_state.explain(relayer_id, as_json)


@relayer.command(epilog="Example:  relaydeck relayer fuel --first 20")
@click.argument("relayer_id", metavar="[ID]", default="")
@click.option("--first", type=click.IntRange(1, 1000), default=20, show_default=True, help="Most to show without ID.")
@as_json("Runway", many=True, remark="; with ID, an object with `runway` and `history`, a `BalanceHistory`")
@anywhere
def fuel(relayer_id: str, first: int, as_json: bool) -> None:
    """Show how long the balance of a relayer lasts. Without ID: what runs out first.

    The forecast repeats what the relayer spent in the last day and in the last week, and shows the shorter result. The
    range is that of its heaviest and its lightest day. A forecast needs an hour of history and two payments.
    """
    from relaydeck.cli import relayer_fuel

    if relayer_id:
        relayer_fuel.show_one(relayer_id, as_json)
    else:
        relayer_fuel.show_first(first, as_json)


@notification.command(epilog="Example:  relaydeck notification test pager --wait")
@click.argument("notification_id", metavar="ID")
@click.option("--wait", is_flag=True, help="Wait for the first attempt, and exit with 1 unless it succeeds.")
@click.option("--timeout", type=click.FloatRange(1), default=30, show_default=True, help="Longest wait, in seconds.")
@as_json("Event", remark="; with `--wait`, `DeliveryWithAttempts`")
@anywhere
def test(notification_id: str, wait: bool, timeout: float, as_json: bool) -> None:
    """Send a test event to the notification with this ID. A running service delivers it."""
    _events().test_notification(notification_id, timeout if wait else None, as_json)


@click.group()
def event() -> None:
    """List events and their deliveries, and deliver them again."""


def _events() -> Any:
    from relaydeck.cli import event_actions

    return event_actions


@event.command("list", epilog="Example:  relaydeck event list --relayer-id sepolia-1 --limit 5")
@filters("events")
@_order
@_limit(100)
@as_json("Event", many=True)
@anywhere
def event_list(limit: int, as_json: bool, **query: str | None) -> None:
    """List events, newest first."""
    _events().show_all(given(query), limit, as_json)


@event.command("tail", epilog="Example:  relaydeck event tail --follow --json | jq .type")
@click.option("--follow", "-f", is_flag=True, help="Also print the events that come, until Ctrl-C.")
@_limit(10)
@as_json("Event", remark=", one on each line", text="Print one JSON object on each line, for scripts.")
@anywhere
def event_tail(follow: bool, limit: int, as_json: bool) -> None:
    """Print the latest events, oldest first."""
    from relaydeck.cli.event_tail import tail

    tail(limit, follow=follow, as_json=as_json)


@event.command("deliveries")
@filters("deliveries")
@_order
@_limit(100)
@as_json("Delivery", many=True)
@anywhere
def event_deliveries(limit: int, as_json: bool, **query: str | None) -> None:
    """List deliveries, newest first. One is dead after ten failed attempts, or if the receiver answered 410."""
    _events().show_deliveries(given(query), limit, as_json)


@event.command("show")
@click.argument("event_id", metavar="ID")
@as_json("DeliveryWithAttempts")
@anywhere
def event_show(event_id: str, as_json: bool) -> None:
    """Show the delivery of an event with every attempt."""
    _events().show(event_id, as_json)


@event.command("replay")
@click.argument("event_id", metavar="[ID]", default="")
@click.option("--all-dead", is_flag=True, help="Every delivery that was given up.")
@as_json("Scheduled")
@anywhere
def event_replay(event_id: str, all_dead: bool, as_json: bool) -> None:
    """Deliver an event again, at once. With --all-dead: every event whose delivery was given up."""
    if bool(event_id) == all_dead:
        raise click.UsageError("give either an ID or --all-dead")
    if all_dead:
        _events().replay_all(as_json)
    else:
        _events().replay(event_id, as_json)


@click.group()
def audit() -> None:
    """Read the audit log, and verify that nobody has altered it."""


def _audit() -> Any:
    from relaydeck.cli import audit_actions

    return audit_actions


@audit.command("list")
@filters("audit")
@_limit(20)
@as_json("AuditEntry", many=True)
@anywhere
def audit_list(limit: int, as_json: bool, **query: str | None) -> None:
    """List the latest changes, newest first."""
    _audit().show(given(query), limit, as_json)


@audit.command("head")
@as_json("AuditHead")
@anywhere
def audit_head(as_json: bool) -> None:
    """Print the head of the log. Keep it elsewhere to detect later that entries were removed."""
    _audit().print_head(as_json)


@audit.command("verify", epilog='Example:  relaydeck audit verify --head "$(cat kept-elsewhere)"')
@click.option(
    "--head", "kept", default="", help="A head printed earlier: also detects that later entries were removed."
)
@as_json("AuditVerification")
@anywhere
def audit_verify(kept: str, as_json: bool) -> None:
    """Verify every link of the audit log. The first broken one is reported."""
    _audit().check(kept, as_json)


class _Apply(click.Command):
    """With --detailed-exitcode, an exit code of 2 means changes: a wrong usage exits with 1 too."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        self._detailed = "--detailed-exitcode" in args
        with self._errors_exit_1():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with self._errors_exit_1():
            return super().invoke(ctx)

    @contextmanager
    def _errors_exit_1(self) -> Iterator[None]:
        try:
            yield
        except click.UsageError as error:
            if not self._detailed:
                raise
            error.show()
            sys.exit(1)


@click.command(
    cls=_Apply,
    short_help="Create and change networks, signers, notifications and relayers from a file.",
    epilog="\b\nExamples:\n  relaydeck apply examples/demo.toml --plan\n  relaydeck export | relaydeck apply - --plan",
)
@click.argument("file")
@click.option("--plan", is_flag=True, help="Print what would change, and change nothing.")
@click.option(
    "--prune", is_flag=True, help="Also delete records that an earlier apply, of any file, created and FILE omits."
)
@click.option("--revision", default="", help="Apply only the plan that --plan printed with this revision.")
@click.option(
    "--detailed-exitcode", is_flag=True, help="With --plan: exit 0 without changes, 2 with changes, 1 on errors."
)
@asks_first("With --prune: do not ask before deleting. Required for --prune where there is no terminal.")
@as_json("ApplyReport")
@anywhere
def apply(file: str, plan: bool, prune: bool, revision: str, detailed_exitcode: bool, yes: bool, as_json: bool) -> None:
    """Create and change networks, signers, notifications and relayers as FILE describes them.

    FILE is TOML; - reads standard input. All changes are made, or none. Records that FILE does not mention stay as
    they are. A secret is a string, { env = "NAME" } or { file = "path" }, which the command resolves where it runs.
    """
    from relaydeck.cli import provisioning

    if plan and revision:
        raise click.UsageError("--revision applies a plan: leave --plan out")
    if detailed_exitcode and not plan:
        raise click.UsageError("--detailed-exitcode requires --plan")
    if plan:
        provisioning.plan_file(file, prune=prune, detailed_exitcode=detailed_exitcode, as_json=as_json)
        return
    provisioning.apply_file(file, prune=prune, revision=revision, yes=yes, as_json=as_json)


@click.command(epilog="Example:  relaydeck export > relaydeck.toml")
@as_json("ApplyFile")
@anywhere
def export(as_json: bool) -> None:
    """Print the stored records as an apply file. In place of each secret it contains a reference to fill in."""
    from relaydeck.cli.provisioning import export_state

    export_state(as_json)


RESOURCE_COMMANDS: tuple[click.Command, ...] = (
    network,
    signer,
    notification,
    relayer,
    event,
    audit,
    apply,
    export,
)
