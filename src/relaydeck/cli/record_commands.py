"""Lists, shows, creates, changes and deletes the records of a fleet. The commands of networks and signers.

Fields are arguments, which the help of `create` and `update` lists from their declarations.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import click
import msgspec
from msgspec import UNSET

from relaydeck.api.operations import (
    ACKNOWLEDGE_PROBLEM,
    BY_NAME,
    CHECK_SIGNER,
    FIND,
    LIST_PROBLEMS,
    LIST_SIGNER_DRIVERS,
    REOPEN_PROBLEM,
)
from relaydeck.api.records import FleetProblem, Found
from relaydeck.cli.operation_commands import completed_records, derived_command, identity, list_command, operation_group
from relaydeck.cli.options import anywhere, as_json, asks_first, confirm, label_pairs
from relaydeck.cli.output import (
    Column,
    Shape,
    about,
    columns,
    print_change,
    print_note,
    print_notes,
    print_table,
    progress_bar,
)
from relaydeck.cli.output import show as print_as
from relaydeck.cli.reply import Json, Refused
from relaydeck.cli.target import list_records, target
from relaydeck.errors import OperatorError
from relaydeck.fields import Field, Traits, example_of
from relaydeck.provisioning.declared_records import IDENTITY, RECORD_TYPES, SIGNER_FIELDS, Resource, settable_fields
from relaydeck.provisioning.reader import expected_value
from relaydeck.provisioning.references import LABELS, Resolver, as_reference, reference_problem
from relaydeck.quantities import counted
from relaydeck.secret import Secret
from relaydeck.signers.check import SignerCheckReport
from relaydeck.signers.signer_types import SHAPES

_FIELDS = (
    "FIELD=TEXT sets a string, FIELD:=JSON any other value, FIELD=@FILE the content of a file (@-: standard input)."
)
_LABEL = click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Set a label; KEY= removes it. May be repeated."
)
_REASON = click.option("--reason", default="", help="Why you make the change, for those who approve it.")
_MANY = 1_000_000_000
Rows = Iterator[tuple[str, str]]
# A file must give the id of a signer; a command need not.
_SIGNER_ID = msgspec.structs.replace(SIGNER_FIELDS[0], traits=Traits(None, generated=True))


class Deleted(Shape, frozen=True):
    kind: Annotated[str, about("Such as `relayer`.")]
    name: Annotated[str, about("The identifier or name of the deleted record.")]


def record_group(word: str, columns: Mapping[str, Column]) -> click.Group:
    identified = "network called NAME" if word == "network" else f"{word} with this ID"
    group = operation_group(word)
    listing = BY_NAME[f"list_{word}s"]
    group.add_command(list_command(listing, "list", f"List {word}s, oldest first.", columns, most=1000))
    group.add_command(derived_command(BY_NAME[f"get_{word}"], "show", f"Show the {identified}."))
    group.add_command(_create_command(word))
    if f"update_{word}" in BY_NAME:
        group.add_command(_update_command(word, identified))
    group.add_command(_delete_command(word, identified))
    return group


def _create_command(word: str) -> click.Command:
    operation, resource = BY_NAME[f"create_{word}"], cast(Resource, f"{word}s")
    assert operation.response is not None

    @click.command("create", cls=_DocumentCommand, help=f"Create a {word}. {_FIELDS}")
    @click.argument("fields", nargs=-1)
    @click.option("--from", "source", default="", help="Start from the JSON object in this file; - for standard input.")
    @_LABEL
    @_REASON
    @as_json(operation.response)
    @anywhere
    def create(fields: tuple[str, ...], source: str, labels: tuple[str, ...], reason: str, as_json: bool) -> None:
        given = _labelled(document(source, fields), labels)
        reply = target().call(operation, document=_resolved(resource, given), query=_query(reason))
        print_notes(reply.notes)
        print_change(reply.data, as_json, f"created {word} {reply.data[IDENTITY[resource]]}")

    return create


def _update_command(word: str, identified: str) -> click.Command:
    operation = BY_NAME[f"update_{word}"]
    assert operation.response is not None
    words = (
        f"Change the {'labels of the ' if word == 'signer' else ''}{identified}. {_FIELDS} FIELD:=null removes a value."
    )

    @click.command("update", cls=_DocumentCommand, help=words)
    @identity(operation)
    @click.argument("fields", nargs=-1)
    @click.option(
        "--from", "source", default="", help="Start from the JSON merge patch in this file; - for standard input."
    )
    @_LABEL
    @_REASON
    @as_json(operation.response)
    @anywhere
    def update(
        identifier: str, fields: tuple[str, ...], source: str, labels: tuple[str, ...], reason: str, as_json: bool
    ) -> None:
        changes = _labelled(document(source, fields), labels)
        if not changes:
            raise OperatorError(
                "there is nothing to change", "Give FIELD=TEXT or FIELD:=JSON arguments, or --from FILE."
            )
        resolved = _resolved(cast(Resource, f"{word}s"), changes)
        reply = target().call(operation, identifier, document=resolved, query=_query(reason))
        print_notes(reply.notes)
        done = f"updated {word} {identifier}" if reply.changed else f"{word} {identifier} already has these values"
        print_change(reply.data, as_json, done)

    return update


def _delete_command(word: str, identified: str) -> click.Command:
    operation = BY_NAME[f"delete_{word}"]

    @click.command("delete", help=f"Delete the {identified}. Refused while another record refers to it.")
    @identity(operation)
    @asks_first("Do not ask. Required where there is no terminal.")
    @_REASON
    @as_json(Deleted)
    @anywhere
    def delete(identifier: str, yes: bool, reason: str, as_json: bool) -> None:
        confirm(f"delete {word} {identifier}", yes=yes)
        target().call(operation, identifier, query=_query(reason))
        print_change(Deleted(word, identifier), as_json, f"deleted {word} {identifier}")

    return delete


def _query(reason: str) -> dict[str, str]:
    return {"reason": reason} if reason else {}


def _labelled(document: Json, labels: tuple[str, ...]) -> Json:
    for key, value in label_pairs(labels, removes=True).items():
        document.setdefault("labels", {})[key] = value or None
    return document


@click.command(epilog="Example:  relaydeck find 5c23")
@click.argument("text")
@click.option("--first", type=click.IntRange(1, 100), default=20, show_default=True, help="Most to show.")
@as_json(Found, many=True)
@anywhere
def find(text: str, first: int, as_json: bool) -> None:
    """Find records whose id, name or address begins with TEXT, or whose address ends with it.

    Of each kind, the 20,000 newest are found by any part.
    """
    found = target().call(FIND, query={"text": text, "first": str(first)}).data
    print_as(found, as_json, partial(print_table, columns=columns("kind", "id", "name", "network", "address")))


def _named(view: Json) -> str:
    """The records of a problem; at most three are named."""
    more = view["total"] - len(view["records"])
    names = ", ".join(each["name"] for each in view["records"])
    return f"{names} and {more} more" if more else names


def _acknowledged(view: Json) -> str | None:
    known = view.get("acknowledgement")
    return f"by {known['by']} until {known['until']}: {known['note']}" if known else None


_PROBLEM = {
    "records": _named,
    **columns("state", "cause", "since", "network"),
    "acknowledged": _acknowledged,
    "id": "id",
}
problem = operation_group("problem")
problem.add_command(derived_command(LIST_PROBLEMS, "list", show_response=partial(print_table, columns=_PROBLEM)))
problem.add_command(
    derived_command(REOPEN_PROBLEM, "reopen", show_response=lambda found: print_table([found], _PROBLEM))
)


@problem.command("acknowledge", epilog="Example:  relaydeck problem acknowledge 6f1ed002ab559585 'provider told' 4h")
@identity(ACKNOWLEDGE_PROBLEM)
@click.argument("note")
@click.argument("until")
@as_json(FleetProblem)
@anywhere
def acknowledge(identifier: str, note: str, until: str, as_json: bool) -> None:
    """Acknowledge a problem with a NOTE for a while.

    UNTIL is a moment (2026-03-01T18:00:00Z) or a span (4h). The problem stays on the list, after the others.
    """
    found = target().call(ACKNOWLEDGE_PROBLEM, identifier, document={"note": note, "until": until}).data
    print_change(found, as_json, f"acknowledged problem {identifier} until {found['acknowledgement']['until']}")


# -- documents from arguments ---------------------------------------------------------------------


def document(source: str, assignments: tuple[str, ...]) -> Json:
    """The JSON object in `source` (a path, `-`, or empty for none), with the assignments applied to it."""
    found = _object(source) if source else {}
    for number, each in enumerate(assignments, 1):
        if not each.partition("=")[1] or each.startswith(("=", ":=")):
            # Not quoted: it may be a secret that was meant as a value.
            problem = f"field argument {number} is neither FIELD=TEXT nor FIELD:=JSON"
            raise OperatorError(problem, "FIELD=@FILE reads the value from a file.")
        _assign(found, each)
    return found


def _object(source: str) -> Json:
    try:
        found = json.loads(_text(source))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise OperatorError(f"{source} does not contain a JSON object")
    return found


def _assign(into: Json, assignment: str) -> None:
    name, _, text = assignment.partition("=")
    *outer, last = name.removesuffix(":").split(".")
    for each in outer:
        into = into.setdefault(each, {})
        if not isinstance(into, dict):
            raise OperatorError(f"{name.removesuffix(':')} is inside a field that is not an object")
    value = _text(text[1:]) if text.startswith("@") else text
    into[last] = _value(name.removesuffix(":"), value) if name.endswith(":") else value


def _value(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise OperatorError(f"the value of {name} is not JSON", f"For a string write {name}=TEXT.") from None


def _text(source: str) -> str:
    """The content of a file without the final newline that editors add."""
    try:
        content = sys.stdin.read() if source == "-" else Path(source).read_text("utf-8")
    except OSError as error:
        raise OperatorError(f"the file {source} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OperatorError(f"the file {source} is not UTF-8 text") from None
    return content.removesuffix("\n").removesuffix("\r")


def _resolved(resource: Resource, document: Json) -> Json:
    """References are resolved here: a server must not read its own environment or files for a caller.

    Labels are none, whatever their keys are: `env=prod` is a label.
    """
    if resource == "signers" or not any(isinstance(value, dict | list) for value in document.values()):
        return document
    return {name: value if name == LABELS else _resolve(value, name) for name, value in document.items()}


def _resolve(value: Any, place: str) -> Any:
    if reference := as_reference(value):
        if problem := reference_problem(reference):
            raise OperatorError(f"{place}: {problem}")
        found = Resolver(os.environ, Path())(reference)
        if isinstance(found, str):
            raise OperatorError(f"{place}: {found}")
        return found.reveal()
    if isinstance(value, dict):
        return {name: _resolve(each, f"{place}.{name}") for name, each in value.items()}
    if isinstance(value, list):
        return [_resolve(each, f"{place}[{number}]") for number, each in enumerate(value)]
    return value


# -- help about fields ----------------------------------------------------------------------------


class _DocumentCommand(click.Command):
    """Takes the fields of a record, which its help lists. The name of the group is that of the record."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        assert ctx.parent is not None
        _write_fields(formatter, cast(Resource, f"{ctx.parent.info_name}s"), update=self.name == "update")
        super().format_epilog(ctx, formatter)


def _write_fields(formatter: click.HelpFormatter, resource: Resource, *, update: bool) -> None:
    if resource == "signers":
        named = (
            [_SIGNER_ID, *SIGNER_FIELDS[1:]]
            if not update
            else [each for each in SIGNER_FIELDS if each.name == "labels"]
        )
        _write(formatter, "Fields", _rows(named, update=update))
        for name, shape in () if update else SHAPES.items():
            _write(formatter, f"Fields with type={name}", _rows(settable_fields(shape), "config."))
        return
    identity = IDENTITY[resource] if update else ""
    fields = [each for each in settable_fields(RECORD_TYPES[resource]) if each.name != identity]
    _write(formatter, "Fields", _rows(fields, update=update))


def _write(formatter: click.HelpFormatter, title: str, rows: Rows) -> None:
    with formatter.section(title):
        formatter.write_dl(list(rows))


def _rows(fields: Sequence[Field], prefix: str = "", *, update: bool = False) -> Rows:
    for field in fields:
        if field.record and not field.is_list:
            yield from _rows(settable_fields(field.record), f"{prefix}{field.name}.", update=update)
        else:
            kind = _kind(field) + ("" if update else f"; {_necessity(field)}")
            yield prefix + field.name, f"{field.description} {kind}. Example: {_assignment(prefix, field)}"


def _kind(field: Field) -> str:
    if field.traits.keyed_by:
        return f"An object of objects by {field.traits.keyed_by}"
    if field.is_list:
        return "An array of objects" if field.record else "An array of strings"
    if field.is_table:
        return "An object of strings"
    if field.type in (Secret, msgspec.Raw):
        return "A string" if field.type is Secret else "An object"
    expected = expected_value(field)
    return expected[0].upper() + expected[1:]


def _necessity(field: Field) -> str:
    if field.traits.generated:
        return "set by the service if omitted"
    if field.required:
        return f"required without {field.traits.given_by}" if field.traits.given_by else "required"
    if field.may_be_unset or not field.default:
        return "optional"
    return f"default {msgspec.json.encode(field.default).decode()}"


def _assignment(prefix: str, field: Field) -> str:
    """The argument that sets the field to its example, quoted for a shell. A secret comes from a file."""
    if field.type is Secret:
        return f"{prefix}{field.name}=@FILE"
    example = _example(field)
    if isinstance(example, str):
        return f"{prefix}{field.name}={shlex.quote(example)}"
    return f"{prefix}{field.name}:={shlex.quote(msgspec.json.encode(example).decode())}"


def _example(field: Field) -> Any:
    if field.example is not UNSET or field.record is None:
        return field.example
    record = example_of(field.record)
    return {record.pop(field.traits.keyed_by): record} if field.traits.keyed_by else [record]


network = record_group(
    "network",
    {
        "name": "name",
        "chain id": "chain_id",
        "coin": "native_symbol",
        "nodes": lambda view: len(view.get("rpc_urls", ())),
        "fee tokens": lambda view: ", ".join(view["fee_tokens"]),
    },
)
signer = record_group(
    "signer",
    {"id": "id", "type": "type", "check": "check.outcome", "checked": "check.checked_at", "created": "created_at"},
)


@signer.command(epilog="Example:  relaydeck signer check --all --json")
@click.argument("signer_id", metavar="[ID]", default="", shell_complete=completed_records("signers"))
@click.option("--all", "every", is_flag=True, help="Every signer whose type has a driver.")
@as_json(SignerCheckReport, many=True, remark=", each with `signer_id`")
@anywhere
def check(signer_id: str, every: bool, as_json: bool) -> None:
    """Check that the signer with this ID reaches its key.

    With --all: every signer whose type has a driver. The key signs a random challenge, and its address is compared with
    the relayers that use the signer. The result is saved and shown with the signer. Exits with 1 when a check does not
    succeed.
    """
    if bool(signer_id) == every:
        raise click.UsageError("give either an ID or --all")
    checks = _check_all() if every else [{"signer_id": signer_id, **target().call(CHECK_SIGNER, signer_id).data}]
    print_as(checks, as_json, _print_checks)
    unbound = sum(each["outcome"] == "unbound" for each in checks)
    failed = sum(each["outcome"] != "ok" for each in checks) - unbound
    _note_unbound(unbound)
    print_note(f"{counted(len(checks) - unbound, 'signer')} checked, {failed} failed")
    if failed or unbound:
        sys.exit(1)


def _check_all() -> list[Json]:
    every, bound = BY_NAME["list_signers"], [each["type"] for each in target().call(LIST_SIGNER_DRIVERS).data]
    names = [each["id"] for kind in bound for each in list_records(every, {"type": kind}, _MANY)[0]]
    _note_unbound(list_records(every, {}, 1)[1].total - len(names))
    found = []
    with progress_bar("checking signers", len(names)) as advance:
        for name, reply in zip(names, target().call_many(CHECK_SIGNER, names), strict=True):
            if isinstance(reply, Refused):  # a damaged one
                print_note(f"note: {reply.problem}; see 'relaydeck doctor'")
            else:
                found.append({"signer_id": name, **reply.data})
            advance(1)
    return found


def _print_checks(checks: list[Json]) -> None:
    columns = {"signer": "signer_id", "outcome": "outcome", "address": "address", "ms": "milliseconds"}
    print_table(checks, {**columns, "explanation": "explanation"})


def _note_unbound(signers: int) -> None:
    if signers:
        print_note(f"note: {counted(signers, 'signer')} left out: no driver is bound to the type")
