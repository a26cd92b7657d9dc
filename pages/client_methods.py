"""`src/relaydeck/client/admin.py`: a method for each operation of `/admin/v1`, from the table of operations."""

import re
from collections.abc import Iterator
from enum import Enum
from textwrap import fill, indent

import msgspec
from msgspec import UNSET

from pages.client_records import PAGE as RECORDS_PAGE
from pages.client_records import client_name, identifier_of, needed_fields, sent_type
from pages.openapi.names import RECORDS
from relaydeck.api.list_filters import Parameter
from relaydeck.api.operation import Operation
from relaydeck.api.operations import BY_NAME, OPERATIONS
from relaydeck.fields import Field, fields_of

PAGE = RECORDS_PAGE.with_name("admin.py")
_HEAD = '''\
# Generated from `relaydeck.api.operations` by `make docs`: do not edit.
# fmt: off
# mypy: disable-error-code="empty-body"
"""The operations of `/admin/v1`. `Client.admin` and `AsyncClient.admin` have these methods."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Unpack

from relaydeck.client import records
from relaydeck.client.calls import Page, sends, walk


class AdminOperations:
'''
_NOT_FOUND = {"notifications": "NotificationNotFound", "relayers": "RelayerNotFound"}
_PYTHON_NAMES = {"from": "start", "to": "end"}
_FORMER_NAMES = {
    "test_notification": "send_test",
    "get_relayer_balances": "relayer_balances",
    "get_relayer_runway": "relayer_runway",
    "list_runways": "first_runways",
}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\S+Z")
_WIDTH = 105  # of the text of a docstring, with room for its quotes
_SOURCE_WIDTH = 116  # of a line, without its indent
_NOT_AFTER_COMMA, _NO_BREAK = re.compile("(?<!,) "), "\N{NO-BREAK SPACE}"
_PAGING = ("page", "per_page", "order")


def page() -> str:
    return _HEAD + "\n".join(indent(_method(each), "    ") for each in OPERATIONS)


def _method(operation: Operation) -> str:
    docstring = _docstring(operation)
    end = "\n" if "\n" in docstring else ""
    text = f"@sends({_sent(operation)})\n{_head(operation)}\n" + indent(f'"""{docstring}{end}"""\n', "    ")
    if "per_page" in operation.parameters:
        text += f"\n{operation.path} = walk({operation.name})\n"
    if operation.name in _FORMER_NAMES:
        text += f"\n{_FORMER_NAMES[operation.name]} = {operation.name}  # the name of earlier versions\n"
    return text


def _head(operation: Operation) -> str:
    """Parameters share lines, which end with a comma: a list of records has ten."""
    parameters = ["self", *_parameters(operation)]
    head = f"def {operation.name}({', '.join(parameters)}) -> {_result(operation)}:"
    if len(head) > _SOURCE_WIDTH:
        lines = indent(fill(_NOT_AFTER_COMMA.sub(_NO_BREAK, ", ".join(parameters)), _SOURCE_WIDTH - 4), "    ")
        head = f"def {operation.name}(\n{lines.replace(_NO_BREAK, ' ')}\n) -> {_result(operation)}:"
    return head.replace("'", '"')


def _sent(operation: Operation) -> str:
    """Method, path, the query of another method than GET, and the names that differ from those of the arguments."""
    path = operation.path
    if operation.has_identifier:
        path = path.replace("{id}", f"{{{_identifier(operation)}}}")
    renamed = [f'{_python_name(each)}="{each.name}"' for each in operation.query if each.name in _PYTHON_NAMES]
    beside_body = [f'"{each.name}"' for each in operation.query if operation.method != "GET"]
    return ", ".join([f'"{operation.method}"', f'"{path}"', *beside_body, *renamed])


def _result(operation: Operation) -> str:
    if operation.response is None:
        return "None"
    name = f"records.{client_name(operation.response)}"
    return f"Page[{name}]" if operation.is_list else name


def _parameters(operation: Operation) -> Iterator[str]:
    if operation.has_identifier:
        yield f"{_identifier(operation)}: str"
    positional, others = _request_parameters(operation)
    yield from positional
    named = [*others, *(f"{_python_name(each)}: {_query_type(each)} | None = None" for each in _query(operation))]
    named += ["if_match: str | None = None"] * operation.conditional
    named += ["idempotency_key: str | None = None"] * operation.is_repeatable
    if named:
        yield from ["*", *named]
    if operation.request in RECORDS and operation.request is not None:
        options = f"records.{operation.request.__name__}" + ("Change" if operation.method == "PATCH" else "Options")
        yield f"**{'change' if operation.method == 'PATCH' else 'more'}: Unpack[{options}]"


def _identifier(operation: Operation) -> str:
    """`name`, or the id with the name of its resource."""
    resource = operation.path.split("/")[0]
    listed = BY_NAME[f"list_{resource}"].response
    assert listed is not None
    if identifier_of(listed) == "name":
        return "name"
    return f"{resource.removesuffix('ies')}y_id" if resource.endswith("ies") else f"{resource[:-1]}_id"


def _request_parameters(operation: Operation) -> tuple[list[str], list[str]]:
    """Those that may be positional and the others. A field with one possible value has it by default."""
    if operation.request is None or (operation.method == "PATCH" and operation.request in RECORDS):
        return [], []
    positional, named = [], []
    for field in _request_fields(operation):
        if field in needed_fields(operation.request) and len(field.choices) != 1:
            positional.append(
                f"{field.name}: {_request_type(field)}{' | None = None' if field.traits.given_by else ''}"
            )
        else:
            named.append(f"{field.name}: {_with_default(field)}")
    return positional, named


def _request_fields(operation: Operation) -> list[Field]:
    """The fields of a request that are parameters. Of a record, others than those needed are options."""
    assert operation.request is not None
    if operation.request not in RECORDS:
        return list(fields_of(operation.request))
    needed = needed_fields(operation.request)
    return [each for each in fields_of(operation.request) if each in needed or each.name == "id"]


def _request_type(field: Field) -> str:
    """A config is that of the signer's type, or any mapping. Records in a list are mappings."""
    if field.type is msgspec.Raw:
        return "records.SignerConfig | Mapping[str, Any]"
    if field.name == "type" and field.type is str:
        return "records.SignerType"
    return "Sequence[Mapping[str, Any]]" if field.is_list and field.record else sent_type(field)


def _with_default(field: Field) -> str:
    if len(field.choices) == 1:
        return f"{sent_type(field)} = {field.choices[0]!r}"
    if not field.default or field.default is UNSET or field.required:
        return f"{_request_type(field)} | None = None"
    default = field.default.value if isinstance(field.default, Enum) else field.default
    return f"{_request_type(field)} = {default!r}"


def _query(operation: Operation) -> list[Parameter]:
    """Pages first, as in every list."""
    return sorted(operation.query, key=lambda each: _PAGING.index(each.name) if each.name in _PAGING else len(_PAGING))


def _python_name(parameter: Parameter) -> str:
    return _PYTHON_NAMES.get(parameter.name, parameter.name)


def _query_type(parameter: Parameter) -> str:
    if set(parameter.choices) == {"true", "false"}:
        return "bool"
    if parameter.choices:
        return f"Literal{list(parameter.choices)}"
    if _MOMENT.fullmatch(parameter.example):
        return "datetime"
    return "int" if parameter.is_integer else "str"


def _docstring(operation: Operation) -> str:
    """Without the reason of a change, which `sends` documents."""
    text = f"{operation.help}."
    if operation.method == "PATCH":
        text += " Only the given fields change; None removes a value (JSON merge patch)."
    if operation.has_identifier:
        text += f" Raises `{_NOT_FOUND.get(operation.path.split('/')[0], 'NotFound')}`."
    described = [_described(each) for each in operation.query if each.name not in (*_PAGING, "reason")]
    return "\n\n".join(filter(None, [fill(text, _WIDTH), "\n".join(described)]))


def _described(parameter: Parameter) -> str:
    text = f"`{_python_name(parameter)}`: {parameter.description}"
    for name, python_name in _PYTHON_NAMES.items():
        text = text.replace(f"`{name}`", f"`{python_name}`")
    return fill(text, _WIDTH, subsequent_indent="    ")
