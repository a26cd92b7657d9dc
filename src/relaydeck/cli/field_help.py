"""Lists the fields of a record in the help of `create` and `update`, from their declarations."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec
from msgspec import UNSET

from relaydeck.fields import Field, Traits, example_of
from relaydeck.provisioning.declared_records import IDENTITY, RECORD_TYPES, SIGNER_FIELDS, Resource, settable_fields
from relaydeck.provisioning.reader import expected_value
from relaydeck.secret import Secret
from relaydeck.signers.signer_types import SHAPES

Rows = Iterator[tuple[str, str]]
# A file must give the id of a signer; a command need not.
_SIGNER_ID = msgspec.structs.replace(SIGNER_FIELDS[0], traits=Traits(None, generated=True))


def write_fields(formatter: click.HelpFormatter, resource: Resource, *, update: bool) -> None:
    if resource == "signers":
        _write(formatter, "Fields", _rows([_SIGNER_ID, *SIGNER_FIELDS[1:]]))
        for name, shape in SHAPES.items():
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
    if field.type in (Secret, msgspec.Raw):
        return "A string" if field.type is Secret else "An object"
    expected = expected_value(field)
    return expected[0].upper() + expected[1:]


def _necessity(field: Field) -> str:
    if field.traits.generated:
        return "set by the service if omitted"
    if field.required:
        return "required"
    if field.may_be_unset or not field.default:
        return "optional"
    return f"default {msgspec.json.encode(field.default).decode()}"


def _assignment(prefix: str, field: Field) -> str:
    """The argument that sets the field to its example, quoted for a shell."""
    example = _example(field)
    if isinstance(example, str):
        return f"{prefix}{field.name}={shlex.quote(example)}"
    return f"{prefix}{field.name}:={shlex.quote(msgspec.json.encode(example).decode())}"


def _example(field: Field) -> Any:
    if field.example is not UNSET or field.record is None:
        return field.example
    record = example_of(field.record)
    return {record.pop(field.traits.keyed_by): record} if field.traits.keyed_by else [record]
