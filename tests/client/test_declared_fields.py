"""The client knows every field and filter of the admin API: a new one cannot be forgotten."""

import inspect
from collections.abc import Iterator

import msgspec
import pytest

from relaydeck.admin.filters import FILTERS
from relaydeck.admin.schemas import schemas
from relaydeck.client import admin, documents, models

SCHEMAS = schemas()
NOT_CHANGEABLE = {"Network": {"name", "network_type"}, "Relayer": {"id", "network_type"}, "Notification": {"id"}}
NOT_WALKED = {"before"}  # an iterator reads on to the end


def shared_records() -> Iterator[str]:
    for name, record in vars(models).items():
        if isinstance(record, type) and issubclass(record, msgspec.Struct) and name in SCHEMAS:
            yield name


@pytest.mark.parametrize("name", list(shared_records()))
def test_every_field_of_a_response(name: str) -> None:
    returned = {field for field, schema in SCHEMAS[name]["properties"].items() if not schema.get("writeOnly")}
    known = {field.encode_name for field in msgspec.structs.fields(getattr(models, name))}
    assert returned <= known


@pytest.mark.parametrize("name", ["Network", "Relayer"])
def test_every_field_of_a_new_record(name: str) -> None:
    assert (
        SCHEMAS[f"{name}Request"]["properties"].keys() == getattr(documents, f"{name}Document").__annotations__.keys()
    )


@pytest.mark.parametrize("name", NOT_CHANGEABLE)
def test_every_field_of_a_change(name: str) -> None:
    known = getattr(documents, f"{name}Change").__annotations__.keys()
    assert SCHEMAS[f"{name}Patch"]["properties"].keys() - NOT_CHANGEABLE[name] == known


@pytest.mark.parametrize("collection", FILTERS)
def test_every_filter(collection: str) -> None:
    filters = {each.name for each in FILTERS[collection]}
    assert filters <= inspect.signature(getattr(admin, f"list_{collection}")).parameters.keys()
    assert filters - NOT_WALKED <= inspect.signature(getattr(admin, collection)).parameters.keys()
