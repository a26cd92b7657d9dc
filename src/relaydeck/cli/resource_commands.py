"""What can be typed about networks, signers, notifications, relayers, events and the audit log."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

from relaydeck.cli.options import as_json, at_home

_FIELDS = "FIELD=TEXT sets a string, FIELD:=JSON anything else, FIELD=@FILE what a file holds (@- standard input)."
_FILTERS = {
    "network": {"name": "Only those whose name holds this."},
    "signer": {"id": "Only those whose id holds this.", "type": "Only those of this type."},
    "notification": {"id": "Only those whose id holds this."},
    "relayer": {
        "name": "Only those whose name holds this.",
        "network": "Only those on this network.",
        "state": "Only those that are active, paused or disabled.",
        "signer-id": "Only those that use this signer.",
        "notification-id": "Only those that tell this notification.",
    },
}


def _actions() -> Any:
    """Imported when a command runs, so that `--help` and `serve` start fast."""
    return import_module("relaydeck.cli.resource_actions")


def _events() -> Any:
    return import_module("relaydeck.cli.events")


def _audit() -> Any:
    return import_module("relaydeck.cli.audit")


def _limit(default: int) -> Callable[..., Any]:
    return click.option("--limit", type=click.IntRange(1), default=default, show_default=True, help="Most to show.")


def _narrowing(options: dict[str, str]) -> Callable[..., Any]:
    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for name, meaning in reversed(options.items()):
            command = click.option(f"--{name}", default="", help=meaning)(command)
        return command

    return add


def _given(filters: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in filters.items() if value}


def _group(singular: str) -> click.Group:
    """list, show, create, update and delete, which every resource has; a signer is never changed in place."""
    resource = f"{singular}s"
    group = click.Group(singular, help=f"List, show, create, change and delete {resource}, without a running service.")

    @group.command("list", help=f"List {resource}, oldest first.")
    @_narrowing(_FILTERS[singular])
    @_limit(1000)
    @as_json
    @at_home
    def list_all(limit: int, as_json: bool, **filters: str) -> None:
        _actions().show_all(resource, _given(filters), limit, as_json)

    @group.command("show", help=f"Show the {singular} called NAME.")
    @click.argument("name")
    @as_json
    @at_home
    def show(name: str, as_json: bool) -> None:
        _actions().show(resource, name, as_json)

    @group.command("create", help=f"Create a {singular}. {_FIELDS}")
    @click.argument("fields", nargs=-1)
    @click.option("--from", "source", default="", help="A JSON object to start from; - for standard input.")
    @as_json
    @at_home
    def create(fields: tuple[str, ...], source: str, as_json: bool) -> None:
        _actions().create(resource, source, fields, as_json)

    @group.command("delete", help=f"Delete the {singular} called NAME, unless something still refers to it.")
    @click.argument("name")
    @at_home
    def delete(name: str) -> None:
        _actions().delete(resource, name)

    if singular != "signer":
        _add_update(group, singular)
    return group


def _add_update(group: click.Group, singular: str) -> None:
    @group.command("update", help=f"Change the {singular} called NAME. {_FIELDS} FIELD:=null removes it.")
    @click.argument("name")
    @click.argument("fields", nargs=-1)
    @click.option("--from", "source", default="", help="A JSON merge patch to start from; - for standard input.")
    @as_json
    @at_home
    def update(name: str, fields: tuple[str, ...], source: str, as_json: bool) -> None:
        _actions().update(f"{singular}s", name, source, fields, as_json)


network, signer, notification, relayer = map(_group, ("network", "signer", "notification", "relayer"))


@relayer.command()
@click.argument("name", metavar="ID")
@at_home
def pause(name: str) -> None:
    """Pause the relayer with this ID."""
    _actions().pause(name, paused=True)


@relayer.command()
@click.argument("name", metavar="ID")
@at_home
def resume(name: str) -> None:
    """Let a paused relayer go on."""
    _actions().pause(name, paused=False)


@relayer.command()
@click.argument("name", metavar="ID")
@as_json
@at_home
def why(name: str, as_json: bool) -> None:
    """Explain the state of the relayer with this ID: causes, since when, and what its nodes do now."""
    from relaydeck.cli.why import explain

    explain(name, as_json)


@notification.command()
@click.argument("name", metavar="ID")
@as_json
@at_home
def test(name: str, as_json: bool) -> None:
    """Send a test event to the notification with this ID."""
    _actions().test_notification(name, as_json)


@click.group()
def event() -> None:
    """List events and their deliveries, and send them again."""


@event.command("list")
@click.option("--after", type=click.IntRange(0), default=0, help="Only those after this sequence number.")
@_limit(100)
@as_json
@at_home
def event_list(after: int, limit: int, as_json: bool) -> None:
    """List events, oldest first."""
    _events().show_all(after, limit, as_json)


@event.command("deliveries")
@_narrowing({"notification-id": "Only those to this notification.", "relayer-id": "Only those of this relayer."})
@click.option("--state", type=click.Choice(["pending", "delivered", "dead"]), help="Only those in this state.")
@click.option("--after", type=click.IntRange(0), default=0, help="Only those after this sequence number.")
@_limit(100)
@as_json
@at_home
def event_deliveries(after: int, limit: int, as_json: bool, **filters: str) -> None:
    """List what is on its way, has arrived or is dead."""
    _events().show_deliveries(_given(filters), after, limit, as_json)


@event.command("show")
@click.argument("name", metavar="ID")
@as_json
@at_home
def event_show(name: str, as_json: bool) -> None:
    """Show an event's delivery with every try."""
    _events().show(name, as_json)


@event.command("replay")
@click.argument("name", metavar="[ID]", default="")
@click.option("--all-dead", is_flag=True, help="Every delivery that was given up.")
@at_home
def event_replay(name: str, all_dead: bool) -> None:
    """Send a finished delivery again, or all that were given up."""
    if bool(name) == all_dead:
        raise click.UsageError("give an ID, or --all-dead")
    if all_dead:
        _events().replay_all()
    else:
        _events().replay(name)


@click.group()
def audit() -> None:
    """See who changed what, and check that nobody changed the record of it."""


@audit.command("list")
@_narrowing({"actor": "Only by this actor.", "action": "Only this action.", "record": "Only of this record."})
@_limit(20)
@as_json
@at_home
def audit_list(limit: int, as_json: bool, **filters: str) -> None:
    """List the latest changes, newest first."""
    _audit().show(_given(filters), limit, as_json)


@audit.command("head")
@at_home
def audit_head() -> None:
    """Print the end of the chain, to keep elsewhere."""
    _audit().print_head()


@audit.command("verify", epilog='Example:  relaydeck audit verify --head "$(cat kept-elsewhere)"')
@click.option("--head", "kept", default="", help="A head printed earlier: also finds out whether the end was removed.")
@at_home
def audit_verify(kept: str) -> None:
    """Check every link of the audit log; say where the first broken one is."""
    _audit().check(kept)


GROUPS = (network, signer, notification, relayer, event, audit)
