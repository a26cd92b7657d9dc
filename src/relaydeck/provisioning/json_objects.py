"""Reads a nested JSON object, which is stored as it is, from a table or from a reference to its JSON text."""

from typing import Any

import msgspec
from msgspec import UNSET

from relaydeck.provisioning.mistakes import kind_of
from relaydeck.provisioning.references import Missing, as_reference
from relaydeck.provisioning.table import Table
from relaydeck.secret import Secret


def read_object(table: Table, key: str) -> Any:
    """A msgspec.Raw, Missing, or UNSET after a mistake."""
    value = table.take(key, "a table", required=True)
    if reference := as_reference(value):
        resolved = table.resolve(key, reference)
        return resolved if isinstance(resolved, Missing) else _from_json(table, key, resolved)
    if isinstance(value, dict):
        return _from_table(table, key, value)
    if value is not UNSET:
        table.note(key, f"expected a table, or a reference to JSON text; found {kind_of(value)}")
    return UNSET


def _from_json(table: Table, key: str, text: Secret) -> Any:
    try:
        msgspec.json.decode(text.reveal(), type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError):
        table.note(key, "the text it refers to is not a JSON object")
        return UNSET
    return msgspec.Raw(text.reveal().strip().encode())


def _from_table(table: Table, key: str, value: dict[str, Any]) -> Any:
    if problem := _not_json(value):
        table.note(key, f"contains {problem}, which JSON cannot express")
        return UNSET
    return msgspec.Raw(msgspec.json.encode(value))


def _not_json(value: Any) -> str:
    """The first part of a TOML value that JSON cannot express; empty when there is none."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return next((found for part in parts if (found := _not_json(part))), "")
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "an infinite number or nan"
    return "" if isinstance(value, str | bool | int | float) else "a date or time"
