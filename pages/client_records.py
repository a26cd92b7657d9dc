"""`src/relaydeck/client/records.py`: the records of responses and the fields of requests, from their declarations."""

import subprocess
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import UnsetType

from pages.openapi.contract import document
from pages.openapi.names import RECORDS
from relaydeck.api.operations import OPERATIONS
from relaydeck.api.records import EstimateFailure
from relaydeck.fields import Field, fields_of
from relaydeck.scope import Scope
from relaydeck.secret import Secret
from relaydeck.signers.signer_types import SHAPES

PAGE = Path(__file__).parents[1] / "src" / "relaydeck" / "client" / "records.py"
Struct = type[msgspec.Struct]
_HEAD = '''\
# Generated from `relaydeck.api` by `make docs`: do not edit.
"""What the service returns and takes, typed.

Unknown fields are ignored, so a newer service does not break an older client. A field that a response leaves out is
None: those that only `/admin/v1` returns, such as `created_at`, and the URLs of nodes when the service cannot open the
stored value; `meta.logs` says so. Amounts are whole Wei of any size, or Decimal.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NotRequired, TypedDict

import msgspec

from relaydeck.client.calls import Record'''
# The client has one class for a delivery: in a list, its attempts are empty.
_NAMES = {
    "DeliveryWithAttempts": "Delivery",
    "EventBody": "Event",
    "SignerCheckReport": "SignerCheck",
}
_REPRS = {
    "NewToken": """
    def __repr__(self) -> str:
        return f"NewToken(name={self.name!r}, kind={self.kind!r}, token='***')"
""",
    "RotatedToken": """
    def __repr__(self) -> str:
        return f"RotatedToken(name={self.name!r}, kind={self.kind!r}, token='***')"
""",
    "RpcUrl": '''
    def __repr__(self) -> str:
        """Without path and query, which may hold a key."""
        scheme, _, rest = self.url.partition("://")
        host = rest.partition("/")[0].partition("?")[0].rpartition("@")[2]
        return f"RpcUrl(url='{scheme}://{host}/…', weight={self.weight})"
''',
}
_OBJECT = "dict[str, Any]"
_MOMENT = {"format": "date-time"}


def page() -> str:
    responses = [each.response for each in OPERATIONS if each.response]
    shown: dict[str, Struct] = {}
    for each in (each for response in responses for each in _with_nested(response)):
        if shown.get(client_name(each)) not in (each, None):
            del shown[client_name(each)]  # the later one has more fields, of types that follow the earlier one
        shown[client_name(each)] = each
    parts = [
        _HEAD,
        *(_record(each, each in responses) for each in shown.values()),
        f"SignerType = Literal{list(SHAPES)}",
        *(_typed_dict(each.__name__, each) for each in SHAPES.values()),
        f"SignerConfig = {' | '.join(each.__name__ for each in SHAPES.values())}",
        *_documents(),
    ]
    return formatted("\n\n".join(parts), PAGE)


def formatted(code: str, path: Path) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(path), "-"]
    return subprocess.run(command, input=code, capture_output=True, text=True, check=True).stdout  # noqa: S603


def client_name(record: Struct) -> str:
    return _NAMES.get(record.__name__, record.__name__)


def _with_nested(record: Struct) -> Iterator[Struct]:
    """A record after those that it refers to."""
    for field in _shown_fields(record):
        for nested in _structs_in(_raw_type(record, field)):
            yield from _with_nested(nested)
    if _declared_base(record) and client_name(_base(record)) != client_name(record):
        yield from _with_nested(_base(record))
    yield record


def _structs_in(annotated: Any) -> list[Struct]:
    """The records of a type, except for those that are shown as JSON objects."""
    if isinstance(annotated, type) and issubclass(annotated, msgspec.Struct) and annotated is not EstimateFailure:
        return [annotated]
    found = [struct for each in get_args(annotated) for struct in _structs_in(each)]
    return found if len(found) == 1 else []


def _record(record: Struct, is_response: bool) -> str:
    """Fields of the record that it extends are not repeated, unless both have one name in the client."""
    extends = _declared_base(record) and client_name(_base(record)) != client_name(record)
    base = client_name(_base(record)) if extends else "Record" if is_response else "msgspec.Struct"
    inherited = {field.name for field in fields_of(_base(record))} if extends else set()
    lines = [
        f"    {field.name}: {_with_default(record, field)}"
        for field in _shown_fields(record)
        if field.name not in inherited
    ]
    if record in RECORDS:
        lines.append("    created_at: datetime | None = None")
    name = client_name(record)
    head = f"class {name}({base}, frozen=True, kw_only=True):\n{_docstring(record)}"
    return head + "\n".join(lines) + "\n" + _REPRS.get(name, "")


def _shown_fields(record: Struct) -> list[Field]:
    keyed = {field.traits.keyed_by for each in RECORDS for field in fields_of(each) if field.record is record}
    return [field for field in fields_of(record) if not field.traits.write_only and field.name not in keyed]


def _base(record: Struct) -> Struct:
    base: Struct = record.__base__  # type: ignore[assignment]
    return base


def _declared_base(record: Struct) -> bool:
    return bool(fields_of(_base(record)))


def _docstring(record: Struct) -> str:
    text = record.__dict__.get("__doc__")
    return f'    """{text}"""\n\n' if text else ""


def _raw_type(record: Struct, field: Field) -> Any:
    return next(info.type for info in msgspec.structs.fields(record) if info.name == field.name)


def _with_default(record: Struct, field: Field) -> str:
    """A field that a response may leave out has a default: None, or an empty list."""
    kind = _shown(_raw_type(record, field))
    if field.traits.keyed_by and field.record:
        return f"dict[str, {client_name(field.record)}] = msgspec.field(default_factory=dict)"
    if field.traits.sealed_as or field.may_be_unset or not _is_in_every_form(record, field):
        return f"{kind} = ()" if field.is_list and not field.traits.sealed_as else f"{_or_none(kind)} = None"
    if field.required or field.traits.read_only or (field.record and not field.is_list):
        return kind
    return f"{kind} = {field.default!r}"


def _is_in_every_form(record: Struct, field: Field) -> bool:
    """Whether it is also in the form under `/api/v1`, and in that of a list."""
    schemas = document()["components"]["schemas"]
    name = client_name(record)
    if name in schemas and field.name not in schemas[name]["properties"]:
        return False
    base = _base(record)
    return client_name(base) != name or field.name in {each.name for each in fields_of(base)}


def _or_none(kind: str) -> str:
    return kind if kind.endswith("| None") else f"{kind} | None"


def _shown(annotated: Any) -> str:
    """The type of a value in a response. A choice of texts is any text: a newer service may add one."""
    if get_origin(annotated) is Annotated:
        is_moment = _MOMENT in [each.extra_json_schema for each in get_args(annotated)[1:]]
        return "datetime" if is_moment else _shown(get_args(annotated)[0])
    if get_origin(annotated) in (Union, UnionType):
        kinds = [each for each in get_args(annotated) if each not in (UnsetType, NoneType)]
        kind = _shown(kinds[0]) if len(kinds) == 1 else _OBJECT
        return f"{kind} | None" if NoneType in get_args(annotated) else kind
    if get_origin(annotated) is tuple:
        return f"tuple[{_shown(get_args(annotated)[0])}, ...]"
    if annotated is msgspec.Raw or get_origin(annotated) is dict or annotated is EstimateFailure:
        return _OBJECT
    if get_origin(annotated) is Literal or issubclass(annotated, Enum):
        return "str"
    return client_name(annotated) if issubclass(annotated, msgspec.Struct) else str(annotated.__name__)


def _documents() -> Iterator[str]:
    """The fields of the requests that create and change records."""
    found: dict[str, str] = {}
    for record in RECORDS:
        for field in _settable(record):
            if field.record and not field.traits.keyed_by:
                found |= _nested_documents(field.record, is_list=field.is_list)
        found |= _options(record)
    yield from found.values()


def _nested_documents(record: Struct, *, is_list: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    for field in _settable(record):
        if field.record:
            found |= _nested_documents(field.record, is_list=field.is_list)
    name = f"{record.__name__}Document"
    if is_list:
        return found | {name: _typed_dict(name, record)}
    fields = [f"    {field.name}: {sent_type(field)} | None" for field in _settable(record)]
    head = f'class {name}(TypedDict, total=False):\n    """In a change, None removes a value."""\n\n'
    return found | {name: head + "\n".join(fields)}


def _typed_dict(name: str, record: Struct) -> str:
    needed = needed_fields(record)
    fields = [
        f"    {field.name}: {sent_type(field) if field in needed else f'NotRequired[{sent_type(field)}]'}"
        for field in _settable(record)
    ]
    return f"class {name}(TypedDict):\n{_docstring(record)}" + "\n".join(fields)


def _options(record: Struct) -> dict[str, str]:
    """What a new record may have, and what a change may have besides."""
    name, needed = record.__name__, needed_fields(record)
    changeable = [field for field in _settable(record) if field.name != identifier_of(record)]
    optional = [f"    {field.name}: {sent_type(field)} | None" for field in changeable if field not in needed]
    others = [f"    {field.name}: {sent_type(field)}" for field in changeable if field in needed]
    return {
        f"{name}Options": f"class {name}Options(TypedDict, total=False):\n" + "\n".join(optional),
        f"{name}Change": f"class {name}Change({name}Options, total=False):\n" + "\n".join(others),
    }


def needed_fields(record: Struct) -> list[Field]:
    """The fields of a request that have to be there."""
    return [
        field
        for field in _settable(record)
        if field.required and not field.traits.generated and not _may_be_unset(_raw_type(record, field))
    ]


def identifier_of(record: Struct) -> str:
    return "id" if any(field.name == "id" for field in fields_of(record)) else "name"


def _settable(record: Struct) -> list[Field]:
    return [field for field in fields_of(record) if not field.traits.read_only]


def _may_be_unset(annotated: Any) -> bool:
    if get_origin(annotated) is Annotated:
        return _may_be_unset(get_args(annotated)[0])
    return UnsetType in get_args(annotated)


def sent_type(field: Field) -> str:
    """The type of a field in a request."""
    return "Mapping[str, Mapping[str, Any] | None]" if field.traits.keyed_by else _sent(field.type)


def _sent(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        return _sent(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return f"Literal{list(get_args(kind))}"
    if get_origin(kind) is tuple:
        return f"Sequence[{_sent(get_args(kind)[0])}]"
    if get_origin(kind) in (Union, UnionType):
        return _sent(next(each for each in get_args(kind) if each is not NoneType))
    if kind is msgspec.Raw or kind is Scope or get_origin(kind) is dict:
        return "Mapping[str, Any]"
    if kind is Secret:
        return "str"
    if issubclass(kind, Enum):
        return f"Literal{[each.value for each in kind]}"
    return f"{kind.__name__}Document" if issubclass(kind, msgspec.Struct) else str(kind.__name__)
