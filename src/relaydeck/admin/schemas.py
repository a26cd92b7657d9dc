"""The schemas and examples of the admin API, derived from the records and from `bodies.py`."""

from typing import Any

import msgspec

from relaydeck.admin import bodies
from relaydeck.admin.bodies import Created
from relaydeck.fees.report import EstimateReport
from relaydeck.fields import BASIS, Field, example_of, fields_of
from relaydeck.http.envelope import Metadata, Pagination, Success
from relaydeck.http.error_body import Problem
from relaydeck.networks.model import Network
from relaydeck.notifications.model import EventBody, Notification
from relaydeck.relayers.balance_history import BalanceHistory, BalancePoint, TopUp
from relaydeck.relayers.explanation import Explanation
from relaydeck.relayers.model import Relayer
from relaydeck.relayers.runway_report import FirstRunways, Runway, RunwayTime
from relaydeck.secret import LONGEST_SECRET, Secret
from relaydeck.signers.check_report import SignerCheckReport

Json = dict[str, Any]
PLACE = "#/components/schemas/"
RECORDS: tuple[type[msgspec.Struct], ...] = (Network, Notification, Relayer)
_RESPONSES = (
    bodies.Signer,
    bodies.Token,
    bodies.NewToken,
    bodies.Attempt,
    bodies.Delivery,
    bodies.DeliveryWithAttempts,
    bodies.Replayed,
    bodies.AuditEntry,
    bodies.AuditHead,
    bodies.AuditVerification,
    bodies.DoctorFinding,
    bodies.ApplyReport,
    bodies.PlannedStep,
    bodies.PlannedField,
    bodies.ExportedFile,
    bodies.SignerDriver,
    EstimateReport,
    Explanation,
    BalanceHistory,
    BalancePoint,
    TopUp,
    Runway,
    RunwayTime,
    FirstRunways,
    SignerCheckReport,
    Metadata,
    Pagination,
)
_REQUESTS = (bodies.SignerRequest, bodies.TokenRequest, bodies.EstimateRequest, bodies.ApplyRequest)
# The types that the document is derived from, together with those that they contain.
DECLARED: tuple[type[msgspec.Struct], ...] = (*RECORDS, *_RESPONSES, *_REQUESTS, EventBody, Problem, Created)
_NAMES = {"EventBody": "Event"}


def reference(name: str) -> Json:
    return {"$ref": PLACE + name}


def schemas() -> dict[str, Json]:
    """Every body by its name, except for the envelopes of a success."""
    derived = _derived()
    for record in RECORDS:
        derived |= _record_schemas(derived, record)
    for response in (*_RESPONSES, EventBody, Problem):
        _require_all(derived[_NAMES.get(response.__name__, response.__name__)], response)
    _write_fee_tokens(derived)
    return {name: _closed(schema) for name, schema in derived.items()}


def _derived() -> dict[str, Json]:
    _, components = msgspec.json.schema_components(DECLARED, schema_hook=_secret, ref_template=PLACE + "{name}")
    components.pop("Created")
    return {_NAMES.get(name, name): _cleaned(schema) for name, schema in components.items()}


def _secret(kind: type) -> Json:
    if kind is Secret:
        return {"type": "string", "maxLength": LONGEST_SECRET}
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
    return field.required and not field.traits.generated


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
        if not field.required:
            kept = {name: described.pop(name) for name in ("description", "examples") if name in described}
            patch["properties"][field.name] = kept | {"anyOf": [described, {"type": "null"}]}
    return found


def _require_all(schema: Json, response: type[msgspec.Struct]) -> None:
    """A response contains every field, unless it can be unset."""
    schema["required"] = [field.name for field in fields_of(response) if not field.may_be_unset]


def _write_fee_tokens(derived: dict[str, Json]) -> None:
    """Fee tokens are shown and written as in an apply file: by symbol, a time span as text, a rate without its tag."""
    token = derived["FeeToken"]
    del token["properties"]["symbol"]
    token["required"] = [name for name in token["required"] if name != "symbol"]
    rates = ("FixedRate", "FeedRate", "CrossedRate", "PoolRate", "MedianRate")
    token["properties"]["rate"] = {
        "description": token["properties"]["rate"]["description"],
        "anyOf": [reference(name) for name in rates],
    }
    for name in rates:
        derived[name]["properties"].pop("source")
        derived[name]["required"].remove("source")
        if "max_age" in derived[name]["properties"]:
            text = "Age above which its answer is not used: 90s, 5m, 1h, 1d."
            derived[name]["properties"]["max_age"] = {"type": "string", "description": text, "examples": ["1h"]}
    for name in ("Network", "NetworkRequest", "NetworkPatch"):
        tokens = {"type": "object", "additionalProperties": reference("FeeToken")}
        described = derived[name]["properties"]["fee_tokens"]
        derived[name]["properties"]["fee_tokens"] = {"description": described["description"], **tokens}


def envelope(data: Json, *, paged: bool = False) -> Json:
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
    return _closed({"type": "object", "properties": properties, "required": list(properties)})


# The fields of the envelope that do not depend on the operation: the type of `data` has no schema.
_EnvelopeFields = msgspec.defstruct(
    "_EnvelopeFields",
    [(info.name, info.type) for info in msgspec.structs.fields(Success) if info.name in ("error", "success")],
)


def examples() -> dict[str, Any]:
    """An example of each request, and of responses that need one. Sent in this order, every request succeeds."""
    found: dict[str, Any] = {
        "SignerRequest": example_of(bodies.SignerRequest),
        "TokenRequest": example_of(bodies.TokenRequest),
        "EstimateRequest": example_of(bodies.EstimateRequest),
        "ApplyRequest": example_of(bodies.ApplyRequest),
        "ApplyReport": example_of(bodies.ApplyReport),
        "EstimateReport": example_of(EstimateReport),
        "Explanation": example_of(Explanation),
        "BalanceHistory": example_of(BalanceHistory),
        "Runway": example_of(Runway),
        "SignerCheckReport": example_of(SignerCheckReport),
    }
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
