"""`[[signers]]`: an id, one of the seven types, and the config of that type."""

from typing import Any

import msgspec

from relaydeck.fields import Field, fields_of
from relaydeck.identifiers import identifier_problem
from relaydeck.provisioning.declared import DeclaredSigner
from relaydeck.provisioning.mistakes import Mistake, listed
from relaydeck.provisioning.references import Missing, as_reference
from relaydeck.provisioning.tables import Table, found
from relaydeck.secret import Secret
from relaydeck.signers.shapes import SHAPES, Config


def read_signer(table: Table) -> DeclaredSigner:
    signer_id = table.text("id", check=identifier_problem)
    signer_type = table.one_of("type", list(SHAPES), f"one of {listed(list(SHAPES))}")
    config = table.table("config", required=True)
    table.close()
    shape = SHAPES.get(signer_type)
    return DeclaredSigner(table.place, signer_id, signer_type, _read_config(config, shape) if config and shape else {})


def _read_config(table: Table, shape: type[Config]) -> dict[str, Any]:
    given = {field.name: _read_field(table, field) for field in fields_of(shape)}
    table.close()
    return {name: value for name, value in given.items() if value is not None}


def _read_field(table: Table, field: Field) -> Any:
    if field.type is Secret:
        return table.secret(field.name)
    if field.type is msgspec.Raw:
        return _read_object(table, field.name)
    text = table.text(field.name, required=field.required)
    return text if table.has(field.name) else None


def _read_object(table: Table, key: str) -> msgspec.Raw | Missing | None:
    """A nested object is taken as it is and not looked into; or a reference to its JSON text."""
    value = table.take(key, "a table", required=True)
    if reference := as_reference(value):
        resolved = table.resolve(key, reference)
        return resolved if isinstance(resolved, Missing) else _object_from_json(table, key, resolved)
    if isinstance(value, dict):
        return _object_from_table(table, key, value)
    if value is not None:
        table.note(key, f"expected a table, or a reference to JSON text; found {found(value)}")
    return None


def _object_from_json(table: Table, key: str, text: Secret) -> msgspec.Raw | None:
    try:
        msgspec.json.decode(text.reveal(), type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError):
        table.note(key, "what it refers to is not the text of a JSON object")
        return None
    return msgspec.Raw(text.reveal().strip().encode())


def _object_from_table(table: Table, key: str, value: dict[str, Any]) -> msgspec.Raw | None:
    if odd := _not_json(value):
        table.mistakes.append(Mistake(table.at(key), f"holds {odd}, which JSON does not know"))
        return None
    return msgspec.Raw(msgspec.json.encode(value))


def _not_json(value: Any) -> str:
    """The first part of a TOML value that JSON has no word for; empty when there is none."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return next((odd for part in parts if (odd := _not_json(part))), "")
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "an infinite number or nan"
    return "" if isinstance(value, str | bool | int | float) else "a date or time"
