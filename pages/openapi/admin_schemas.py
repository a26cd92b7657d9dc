"""The schemas and examples of the admin API, derived from the operations and their records."""

from collections.abc import Iterator
from typing import Any

import msgspec

from pages.openapi.names import RECORDS, SCHEMA_NAMES, schema_name
from relaydeck.api import records
from relaydeck.api.operations import OPERATIONS
from relaydeck.api.records import AdminSuccess, Created
from relaydeck.fields import BASIS, Field, example_of, fields_of
from relaydeck.http.envelope import Metadata, Pagination, Problem
from relaydeck.relayers.balance_history import BalanceHistory
from relaydeck.relayers.runway import Runway
from relaydeck.relayers.why import Explanation
from relaydeck.secret import LONGEST_SECRET, Secret
from relaydeck.signers.check import SignerCheckReport

Json = dict[str, Any]
PLACE = "#/components/schemas/"
_VALUES = ("examples", "default", "enum", "const")  # of keywords, which are no schemas
_JSON_TYPES = {str: "string", bool: "boolean"}
_OTHER = (Metadata, Pagination, Problem)  # of the envelope, and the body of every error


def _with_nested(record: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    yield record
    for field in fields_of(record):
        for nested in (field.record, *field.variants):
            if nested is not None:
                yield from _with_nested(nested)


_RESPONSES: list[type[msgspec.Struct]] = [
    *dict.fromkeys(
        each
        for operation in OPERATIONS
        if operation.response and operation.response not in RECORDS
        for each in _with_nested(operation.response)
    ),
    *_OTHER,
]
_REQUESTS = [each.request for each in OPERATIONS if each.request and each.request not in RECORDS]
_SHOWN_BY_EXAMPLE: tuple[type[msgspec.Struct], ...] = (
    records.ApplyReport,
    records.EstimateReport,
    Explanation,
    BalanceHistory,
    Runway,
    SignerCheckReport,
)
# The types that the document is derived from, together with those that they contain.
DECLARED: tuple[type[msgspec.Struct], ...] = (*RECORDS, *_RESPONSES, *_REQUESTS, Created)


def reference(name: str) -> Json:
    return {"$ref": PLACE + name}


def for_tools(schema: Any) -> Any:
    """The same schema in the forms that generators of clients understand."""
    if isinstance(schema, list):
        return [for_tools(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: each if name in _VALUES else for_tools(each) for name, each in schema.items()}
    if isinstance(found.get("pattern"), str):  # in Python `$` accepts a line feed after it, in JSON Schema it does not
        found["pattern"] = found["pattern"].removesuffix("(?!\n)")
    if isinstance(found.get("enum"), list):
        found.setdefault("type", _JSON_TYPES[type(found["enum"][0])])
    if found.get("enum") in ([True], [False]):  # which generators take for texts
        del found["enum"]
    if found.get("type") == "integer" and "multipleOf" in found:
        found["type"] = "number"
    if found.get("type") == "integer" and found.get("maximum", 0) >= 2**31:
        found["format"] = "int64"
    if found.get("type") == "null":
        found["type"] = ["object", "null"]  # generators have no type of null alone
    if "discriminator" in found and "anyOf" in found:
        found["oneOf"] = found.pop("anyOf")
    return _nullable(found)


def _nullable(schema: Json) -> Json:
    match schema:
        case {"anyOf": [{"type": str(kind)} as other, {"type": ["object", "null"]}]}:
            listed = {"enum": [*other["enum"], None]} if "enum" in other else {}
            return {**other, **{k: v for k, v in schema.items() if k != "anyOf"}, "type": [kind, "null"], **listed}
        case {"anyOf": [*others, {"type": ["object", "null"]}]}:
            return {**schema, "anyOf": [*others, {"type": "null"}]}
    return schema


def schemas() -> dict[str, Json]:
    """Every body by its name, except for the envelopes of a success."""
    derived = _derived()
    for each in dict.fromkeys(each for record in RECORDS for each in _with_nested(record)):
        _as_document(derived, each)
    for record in RECORDS:
        derived |= _record_schemas(derived, record)
    for response in _RESPONSES:
        _require_all(derived[schema_name(response)], response)
    return {name: _closed(schema) for name, schema in derived.items()}


def _derived() -> dict[str, Json]:
    _, components = msgspec.json.schema_components(DECLARED, schema_hook=secret_schema, ref_template=PLACE + "{name}")
    components.pop("Created")
    return {SCHEMA_NAMES.get(name, name): _cleaned(schema) for name, schema in components.items()}


def secret_schema(kind: type) -> Json:
    if kind is Secret:
        return {"type": "string", "maxLength": LONGEST_SECRET, "writeOnly": True}
    raise NotImplementedError(kind)


def _cleaned(schema: Any) -> Any:
    """Without what belongs to the document of the described interface, and without what is only stored."""
    if isinstance(schema, dict):
        dropped = {BASIS} if isinstance(schema.get("title"), dict) else {BASIS, "title"}  # a property of that name
        dropped |= {name for name, each in schema.items() if _is_only_stored(each)}
        return {name: _cleaned(each) for name, each in schema.items() if name not in dropped}
    return [_cleaned(each) for each in schema] if isinstance(schema, list) else schema


def _is_only_stored(schema: Any) -> bool:
    return isinstance(schema, dict) and bool(schema.get("readOnly") and schema.get("writeOnly"))


def _closed(schema: Json) -> Json:
    return schema | {"additionalProperties": False} if "properties" in schema else schema


def _record_schemas(derived: dict[str, Json], record: type[msgspec.Struct]) -> dict[str, Json]:
    """A record in a response, in a request that creates it, and in a merge patch."""
    name, fields = record.__name__, fields_of(record)
    schema = derived[name]
    shown = [field for field in fields if not field.traits.write_only]
    settable = [field for field in fields if not field.traits.read_only]
    created = msgspec.json.schema_components([Created])[1]["Created"]["properties"]
    response = _object(schema, shown, [field for field in shown if _is_always_shown(field)])
    return {
        name: _with_properties(response, _cleaned(created)),
        f"{name}Request": _object(schema, settable, [field for field in settable if _is_needed(field)]),
        **_patches(derived, record),
    }


def _object(schema: Json, fields: list[Field], required: list[Field]) -> Json:
    properties = {field.name: dict(schema["properties"][field.name]) for field in fields}
    for each in properties.values():
        each.pop("default", None)
    return {"type": "object", "properties": properties, "required": [field.name for field in required]}


def _with_properties(schema: Json, more: Json) -> Json:
    return schema | {"properties": schema["properties"] | more, "required": [*schema["required"], *more]}


def _is_always_shown(field: Field) -> bool:
    return not field.may_be_unset and not field.traits.sealed_as


def _is_needed(field: Field) -> bool:
    return field.required and not field.traits.generated and not field.traits.given_by


def _patches(derived: dict[str, Json], record: type[msgspec.Struct]) -> dict[str, Json]:
    """The merge patch (RFC 7396) of a record and of the records in it: null resets a field that has a default."""
    settable = [field for field in fields_of(record) if not field.traits.read_only]
    patch = _object(derived[record.__name__], settable, [])
    found = {f"{record.__name__}Patch": patch}
    for field in settable:
        described = patch["properties"][field.name]
        if field.record is not None and not field.is_list:
            described["$ref"] += "Patch"
            found |= _patches(derived, field.record)
        if not field.required or (field.traits.generated and field.name != "id"):
            kept = {name: described.pop(name) for name in ("description", "examples") if name in described}
            patch["properties"][field.name] = kept | {"anyOf": [described, {"type": "null"}]}
    return found


def _require_all(schema: Json, response: type[msgspec.Struct]) -> None:
    """A response contains every field, unless it can be unset or its default is left out."""
    shown = [field for field in fields_of(response) if not field.may_be_unset]
    if response.__struct_config__.omit_defaults:
        shown = [field for field in shown if field.required]
    schema["required"] = [field.name for field in shown]


def _as_document(derived: dict[str, Json], record: type[msgspec.Struct]) -> None:
    """Adapt a record that is shown and written as in an apply file: values as text, lists by key, unions untagged."""
    schema, tag = derived[record.__name__], record.__struct_config__.tag_field
    for field in fields_of(record):
        described = schema["properties"].get(field.name, {})
        if field.form and field.type is not str:
            described["type"] = "string"
            described.pop("format", None)  # of a decimal: generated clients would send a number
        if field.variants:
            described["oneOf"] = described.pop("anyOf")
            del described["discriminator"]
        if field.traits.keyed_by and field.record:
            described |= {"type": "object", "additionalProperties": described.pop("items")}
            described["maxProperties"] = described.pop("maxItems")
            _drop(derived[field.record.__name__], field.traits.keyed_by)
    hidden = {field.name for field in fields_of(record) if field.traits.write_only}
    schema["required"] = [name for name in schema["required"] if name not in hidden]
    if tag:
        _drop(schema, tag)


def _drop(schema: Json, name: str) -> None:
    del schema["properties"][name]
    schema["required"].remove(name)


def envelope(data: Json, *, paged: bool = False, is_list: bool = False) -> Json:
    """The envelope of a success, from its declaration."""
    described = _cleaned(msgspec.json.schema_components([Metadata, Pagination, _EnvelopeFields])[1])
    fields: Json = described["_EnvelopeFields"]["properties"]
    properties = {
        "data": data,
        "error": fields["error"],
        "metadata": reference("Metadata"),
        **({"pagination": reference("Pagination")} if paged else {}),
        "success": fields["success"],
    }
    for each in properties.values():
        each.pop("default", None)
    whole = _closed({"type": "object", "properties": properties, "required": list(properties)})
    return whole if is_list else whole | {"properties": {**properties, "changed": fields["changed"]}}


# The fields of the envelope that do not depend on the operation: the type of `data` has no schema.
_ALWAYS = ("error", "success", "changed")
_EnvelopeFields = msgspec.defstruct(
    "_EnvelopeFields",
    [(info.name, info.type) for info in msgspec.structs.fields(AdminSuccess) if info.name in _ALWAYS],
)


def examples() -> dict[str, Any]:
    """An example of each request, and of responses that need one. Sent in this order, every request succeeds."""
    found: dict[str, Any] = {each.__name__: example_of(each) for each in (*_REQUESTS, *_SHOWN_BY_EXAMPLE)}
    for record in RECORDS:
        fields = [field for field in fields_of(record) if not field.traits.read_only]
        whole = _as_written(example_of(record))
        found[f"{record.__name__}Request"] = {field.name: whole[field.name] for field in fields}
        found[f"{record.__name__}Patch"] = {field.name: whole[field.name] for field in fields if not field.required}
    return found


def _as_written(example: Json) -> Json:
    """Fee tokens by symbol, as in an apply file."""
    if "fee_tokens" in example:
        example["fee_tokens"] = {token.pop("symbol"): token for token in example["fee_tokens"]}
    return example
