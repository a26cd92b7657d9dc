"""Commands that are derived from operations, and lists that also name the columns of their table."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any

import click

from relaydeck.api.list_filters import FILTERS, ORDERINGS, Parameter
from relaydeck.api.operation import Operation
from relaydeck.api.operations import BY_NAME, OPERATIONS
from relaydeck.cli.options import anywhere, as_json, label_pairs
from relaydeck.cli.output import Column, print_notes, print_response, print_table, show
from relaydeck.cli.target import Options, Server, chosen_server, list_records, target
from relaydeck.errors import OperatorError, StoreError

_MANY = 1_000_000_000
_NAMED = ("networks", "tokens", "protections")  # the others have ids
# The tables of the records that a filter names.
_NAMING = {
    "network": "networks",
    "relayer_id": "relayers",
    "signer_id": "signers",
    "notification_id": "notifications",
}
_TAB_SECONDS, _MOST_COMPLETED, _FIRST_PAGE = 2.0, 100, {"per_page": "1000"}
_NEWEST = {"order": "newest"}
_ORDER = click.option(
    "--order", type=click.Choice(["newest", "oldest"]), default="newest", show_default=True, help="Which comes first."
)


def operation_group(name: str) -> click.Group:
    """A group with a command for each entry of `api/operations.py` that names one of this group."""
    group = click.Group(name)
    for each in OPERATIONS:
        if each.command.startswith(f"{name} "):
            group.add_command(derived_command(each, each.command.removeprefix(f"{name} ")))
    return group


def derived_command(
    operation: Operation, name: str, help: str = "", show_response: Callable[[Any], None] = print_response
) -> click.Command:
    """Calls an operation and prints its response. One with a body, with pages or without data needs its own command."""
    assert operation.request is None and operation.response is not None and not operation.is_paged, operation.name

    @_with_options(operation.query)
    @as_json(operation.response, many=operation.is_list)
    @anywhere
    def run(as_json: bool, identifier: str = "", **query: Any) -> None:
        reply = target().call(operation, identifier, query=_given(query))
        show(reply.data, as_json, show_response)
        print_notes(reply.notes)

    if operation.has_identifier:
        run = identity(operation)(run)
    return click.command(name, help=help or f"{operation.help}. {operation.details}".strip())(run)


def identity(operation: Operation) -> Callable[..., Any]:
    """The argument that names a record: networks and tokens have names, the others ids."""
    table = operation.path.split("/")[0]
    metavar = "NAME" if table in _NAMED else "ID"
    return click.argument("identifier", metavar=metavar, shell_complete=completed_records(table))


def completed_records(table: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """The completion of an argument that names a record. Whatever fails completes nothing, and nothing is migrated."""

    def complete(context: click.Context, _argument: click.Parameter, incomplete: str) -> list[str]:
        column = "name" if table in _NAMED else "id"
        try:
            given = Options(**{name: context.params.get(name) for name in Options._fields})
            if server := chosen_server(given, os.environ):
                return _completed_on_server(server, table, column, incomplete)
            return _completed_at_home(given.home, table, column, incomplete)
        except (click.UsageError, OperatorError, StoreError, OSError):
            return []

    return complete


def _completed_on_server(server: Server, table: str, column: str, incomplete: str) -> list[str]:
    from relaydeck.cli.server_target import ServerTarget
    from relaydeck.client import Retry

    remote = ServerTarget(server.url, server.token, _TAB_SECONDS, retry=Retry(attempts=1))
    operation = BY_NAME[f"list_{table}"]
    found = remote.call(operation, query=_FIRST_PAGE if operation.is_paged else _NEWEST).data
    live = [each[column] for each in found if table != "tokens" or each["state"] == "live"]
    return [each for each in live if each.startswith(incomplete)][:_MOST_COMPLETED]


def _completed_at_home(home: Path | None, table: str, column: str, incomplete: str) -> list[str]:
    from relaydeck.settings.model import read_settings
    from relaydeck.store.open_store import open_reader_at

    settings = read_settings()
    where = settings.database if home is None else replace(settings, home=home).database
    if isinstance(where, Path) and not where.is_file():
        return []
    live = " AND revoked_at IS NULL" if table == "tokens" else ""
    beginning = f"substr({column}, 1, :size) = :start{live}"
    # A delivery has the id of its event; of many, the newest are those that somebody looks for.
    rows_of, order = ("deliveries JOIN events USING (seq)", "seq DESC") if table == "deliveries" else (table, "seq")
    sql = f"SELECT {column} AS found FROM {rows_of} WHERE {beginning} ORDER BY {order} LIMIT :most"
    with closing(open_reader_at(where)) as database:
        rows = database.read(sql, {"size": len(incomplete), "start": incomplete, "most": _MOST_COMPLETED})
        return [row.found for row in rows]


def scope_options(relayer: str, network: str, label: str) -> Callable[..., Any]:
    """`--relayer`, `--network` and `--label`, with what each means. The command gets `scope`; None: none is given."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        def run(relayers: tuple[str, ...], networks: tuple[str, ...], labels: tuple[str, ...], **others: Any) -> Any:
            scope = {"relayers": relayers, "networks": networks, "labels": label_pairs(labels)}
            return command(scope=scope if any(scope.values()) else None, **others)

        text = f"{label} with this label, as team=payments. Repeatable."
        scoped = click.option("--label", "labels", multiple=True, help=text)(update_wrapper(run, command))
        for table, meaning in (("networks", network), ("relayers", relayer)):
            completed, text = completed_records(table), f"{meaning}. Repeatable."
            option = click.option(f"--{table[:-1]}", table, multiple=True, shell_complete=completed, help=text)
            scoped = option(scoped)
        return scoped

    return add


def limit(default: int) -> Callable[..., Any]:
    return click.option("--limit", type=click.IntRange(1), default=default, show_default=True, help="Most to show.")


def list_command(
    operation: Operation,
    name: str,
    help: str,
    columns: Mapping[str, Column],
    *,
    most: int | None = None,
    newest: bool = False,
    epilog: str | None = None,
) -> click.Command:
    """A list with its filters. `most`: the default of `--limit`; None: the list is shown whole.

    `newest`: the newest come first. Of a list that is read by sequence number, `--order` decides.
    """
    assert operation.response is not None

    @as_json(operation.response, many=True)
    @anywhere
    def run(as_json: bool, limit: int = _MANY, **query: str | None) -> None:
        order = {"order": "newest"} if newest else {}
        found, reply = list_records(operation, _given(query) | order, limit)
        show(found, as_json, partial(print_table, columns=columns))
        print_notes(reply.notes)
        if reply.total > len(found) and not newest:
            print_notes([f"{reply.total - len(found)} more are not shown; see --limit"])

    if most is not None:
        run = limit(most)(run)
    if not operation.is_paged:
        run = _ORDER(run)
    parameters = FILTERS[operation.path]
    if operation.path in ORDERINGS:
        parameters += (operation.parameters["order"],)
    return click.command(name, help=help, epilog=epilog)(_with_options(parameters)(run))


def _with_options(parameters: Iterable[Parameter]) -> Callable[..., Any]:
    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for each in reversed(tuple(parameters)):
            kind = click.Choice(list(each.choices)) if each.choices else click.IntRange(0) if each.is_integer else str
            option = each.name.replace("_", "-")
            more: dict[str, Any] = {"multiple": True, "metavar": "KEY=VALUE"} if each.is_labels else {}
            if table := _NAMING.get(each.name):
                more["shell_complete"] = completed_records(table)
            command = click.option(f"--{option}", type=kind, help=each.description, **more)(command)
        return command

    return add


def _given(options: dict[str, Any]) -> dict[str, str]:
    given = {name: ",".join(value) if isinstance(value, tuple) else value for name, value in options.items()}
    return {name: str(value) for name, value in given.items() if value}
