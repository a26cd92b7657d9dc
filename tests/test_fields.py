"""Nothing that follows from a declaration is forgotten: every declared field appears everywhere, described."""

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, get_args
from urllib.parse import urlencode

import click
import msgspec
import pytest
from msgspec import UNSET, UnsetType

from pages.openapi import admin_schemas as schemas
from pages.openapi import names
from pages.openapi.admin import document as admin_document
from pages.openapi.contract_schemas import schemas as contract_schemas
from relaydeck.admin import views
from relaydeck.admin.handling import HANDLERS, Content, Handler, Request, Services
from relaydeck.api import operations
from relaydeck.api.list_filters import FILTERS
from relaydeck.basis import shown
from relaydeck.cli.commands import cli
from relaydeck.cli.home_target import HomeServices
from relaydeck.fees.model import FeeEstimateParams
from relaydeck.fields import (
    contract_view,
    example_of,
    field,
    fields_of,
    own_field,
    response_view,
)
from relaydeck.http.pipeline import Call
from relaydeck.networks import network_rows
from relaydeck.networks.model import FeeToken, FixedRate, Network, NodeHeader, RpcUrl
from relaydeck.notifications import notification_changes
from relaydeck.notifications.model import Notification
from relaydeck.provisioning.declared_records import REFERRING
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import DisabledReason, Policies, Relayer
from relaydeck.secret import Secret
from relaydeck.settings.model import read_settings
from relaydeck.settings.values import SIGNER_TYPES
from relaydeck.signers.signer_types import SHAPES
from relaydeck.store.changes import REFERRING_COLUMNS
from relaydeck.store.open_store import Store
from relaydeck.store.record_table import RecordTable, json_reader
from relaydeck.store.sealed_columns import SEALED_COLUMNS
from tests.support.seeding import fill, opened, relayer
from tests.support.stored_rows import create_row


def structs_in(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """The record types that a type mentions, at any depth."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
        for info in msgspec.structs.fields(kind):
            yield from structs_in(info.type)
    for argument in get_args(kind):
        yield from structs_in(argument)


RECORDS: list[type[msgspec.Struct]] = [
    *dict.fromkeys(each for declared in schemas.DECLARED for each in structs_in(declared)),
    FeeEstimateParams,
    *SHAPES.values(),
]
TABLES: list[tuple[RecordTable[Any], type[msgspec.Struct]]] = [
    (relayer_rows.TABLE, Relayer),
    (network_rows.TABLE, Network),
    (notification_changes.TABLE, Notification),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_field_has_a_description_and_an_example(record: type[msgspec.Struct]) -> None:
    for each in fields_of(record):
        assert each.description.endswith("."), each.name
        assert each.example is not UNSET or each.record is not None, each.name


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_example_is_of_its_type(record: type[msgspec.Struct]) -> None:
    kinds = {info.name: info.type for info in msgspec.structs.fields(record)}
    for each in fields_of(record):
        if each.example is not UNSET and each.type is not msgspec.Raw:
            example: Any = (
                {"source": "fixed", **each.example}
                if each.name == "rate" and isinstance(each.example, dict)
                else each.example
            )
            example = each.form.parse(example) if each.form else example
            msgspec.convert(example, kinds[each.name], dec_hook=lambda kind, value: kind(value))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_example_passes_its_check(record: type[msgspec.Struct]) -> None:
    for each in fields_of(record):
        assert each.check is None or each.check(each.example) == "", each.name


def test_every_reference_is_checked_before_a_record_is_deleted() -> None:
    assert {f"{resource}s": column for resource, column in REFERRING_COLUMNS.items()} == REFERRING


def test_every_signer_type_can_be_bound_to_a_driver() -> None:
    assert set(SIGNER_TYPES) == set(SHAPES)


@pytest.mark.parametrize(("table", "record"), TABLES, ids=lambda each: getattr(each, "__name__", ""))
def test_every_stored_field_has_a_column(table: RecordTable[Any], record: type[msgspec.Struct], home: Path) -> None:
    with opened(home) as store:
        rows = store.database.read(f"SELECT name FROM pragma_table_info('{table.name}')")
    expected = {each.traits.sealed_as or each.name for each in fields_of(record) if each.traits.stored}
    assert expected == set(table.column_names) <= {row.name for row in rows}


@pytest.mark.parametrize(("table", "record"), TABLES, ids=lambda each: getattr(each, "__name__", ""))
def test_every_sealed_field_is_resealed_when_the_key_is_rotated(
    table: RecordTable[Any], record: type[msgspec.Struct]
) -> None:
    known = {(each.table, each.column, each.field) for each in SEALED_COLUMNS}
    sealed = {(table.name, each.traits.sealed_as, each.name) for each in fields_of(record) if each.traits.sealed_as}
    assert sealed <= known


@pytest.mark.parametrize("record", [Relayer, Policies, DisabledReason, RpcUrl, Notification])
def test_every_described_field_is_in_the_contract_document(record: type[msgspec.Struct]) -> None:
    shown = {
        each.name: each.description
        for each in fields_of(record)
        if each.traits.basis is not None and not each.traits.write_only
    }
    properties = contract_schemas()[record.__name__]["properties"]
    assert {name: described["description"] for name, described in properties.items()} == shown


@pytest.mark.parametrize("record", names.RECORDS)
def test_every_field_is_in_the_admin_document(record: type[msgspec.Struct]) -> None:
    found = schemas.schemas()
    shown = {each.name for each in fields_of(record) if not each.traits.write_only}
    settable = {each.name for each in fields_of(record) if not each.traits.read_only}
    assert found[record.__name__]["properties"].keys() == shown | {"created_at"}
    assert found[f"{record.__name__}Request"]["properties"].keys() == settable
    assert found[f"{record.__name__}Patch"]["properties"].keys() == settable


def test_every_field_is_in_the_admin_view(home: Path) -> None:
    reason = {"disabled_reason": example_of(DisabledReason)}
    full = msgspec.convert(example_of(Relayer) | {"id": "r1", "network": "dev"} | reason, Relayer)
    fill(home, notifications={"pager": "key"}, relayers=[full])
    with opened(home) as store:
        for collection, name, record in (
            (views.COLLECTIONS["relayers"], "r1", Relayer),
            (views.COLLECTIONS["networks"], "dev", Network),
            (views.COLLECTIONS["notifications"], "pager", Notification),
        ):
            view = views.find(store.database.read, store.vault, collection, name)
            shown = {each.name for each in fields_of(record) if not each.traits.write_only}
            unset = {each.name for each in fields_of(record) if each.may_be_unset} if record is not Relayer else set()
            assert view.data.keys() == shown - unset | {"created_at"}


# Filters.


def list_command(collection: str) -> click.Command:
    group, command = ("event", "deliveries") if collection == "deliveries" else (collection.removesuffix("s"), "list")
    found = cli.commands[group]
    assert isinstance(found, click.Group)
    return found.commands[command]


@pytest.mark.parametrize("collection", sorted(FILTERS))
def test_every_filter_is_a_documented_parameter(collection: str) -> None:
    parameters = admin_document()["paths"][f"/admin/v1/{collection}"]["get"]["parameters"]
    documented = {each["name"]: each for each in parameters}
    for declared in FILTERS[collection]:
        assert documented[declared.name]["description"] == declared.description
        assert documented[declared.name]["schema"].get("enum", []) == list(declared.choices)


@pytest.mark.parametrize("collection", sorted(FILTERS))
def test_every_filter_is_an_option_of_its_command(collection: str) -> None:
    options = {parameter.name for parameter in list_command(collection).params}
    assert {each.name for each in FILTERS[collection]} <= options


@pytest.mark.parametrize("collection", sorted(FILTERS))
def test_every_filter_can_be_used(home: Path, collection: str) -> None:
    fill(home, notifications={"pager": None}, relayers=[relayer("r1")])
    with opened(home) as store:
        for each in FILTERS[collection]:
            moment = "2026-03-01" if each.is_moment else "e"
            for value in each.choices or ["team=a,env=b" if each.is_labels else "1" if each.is_integer else moment]:
                use_filter(store, collection, {each.name: value})


def use_filter(store: Store, collection: str, query: dict[str, str]) -> None:
    operation = operations.BY_NAME[f"list_{collection}"]
    request = Request(Call("", {}, b"", urlencode(query).encode(), None), operation)
    asyncio.run(_handled(HANDLERS[operation.name], HomeServices(read_settings({}), store), request))


async def _handled(handler: Handler, services: Services, request: Request) -> None:
    assert isinstance(await handler(services, request), Content)


# The mechanism itself.


BASIS = shown("2.4")


class Nested(msgspec.Struct, frozen=True):
    shown: Annotated[int, field("Shown.", basis=BASIS, example=1)] = 1
    ours: Annotated[int, own_field("Ours.", example=2)] = 2


class Sample(msgspec.Struct, frozen=True):
    id: Annotated[str, field("Identifier.", basis=BASIS, example="a")]
    nested: Annotated[Nested, field("Nested.", basis=BASIS)] = Nested()
    ours: Annotated[str | UnsetType, own_field("Ours.", example="b")] = UNSET
    many: Annotated[tuple[Nested, ...], field("Many.", basis=BASIS)] = ()
    left_out: Annotated[Nested | UnsetType, field("Left out of the example.", basis=BASIS)] = UNSET


def test_fields_of_a_record() -> None:
    identity, nested, ours, many, left_out = fields_of(Sample)
    assert (identity.type, identity.required, identity.description, identity.example) == (str, True, "Identifier.", "a")
    assert (nested.record, nested.is_list, nested.required) == (Nested, False, False)
    assert (ours.type, ours.may_be_unset, ours.traits.basis) == (str, True, None)
    assert (many.record, many.is_list) == (Nested, True)
    assert (left_out.record, left_out.default) == (Nested, UNSET)


def test_the_example_of_a_record() -> None:
    nested = {"shown": 1, "ours": 2}
    assert example_of(Sample) == {"id": "a", "nested": nested, "ours": "b", "many": [nested]}


def test_a_field_of_our_own_is_not_part_of_the_contract() -> None:
    record = Sample("a", ours="b", nested=Nested(3, 4), many=(Nested(5, 6),))
    assert msgspec.json.decode(msgspec.json.encode(contract_view(record))) == {
        "id": "a",
        "nested": {"shown": 3},
        "many": [{"shown": 5}],
    }


def test_the_check_of_a_list_is_that_of_its_items() -> None:
    receivers = next(each for each in fields_of(Policies) if each.name == "whitelist_receivers")
    check = receivers.item.check
    assert receivers.check is None and check is not None
    assert check("0x12") == "expected an address: 0x and 40 hexadecimal digits"


def test_null_that_an_earlier_version_stored_is_unset() -> None:
    stored = '{"eip1559_pricing":false,"gas_price_cap":null,"whitelist_receivers":["0xabc"]}'
    assert json_reader(Policies)(stored) == Policies(eip1559_pricing=False, whitelist_receivers=("0xabc",))


def test_a_decimal_is_stored_and_read_exactly(home: Path) -> None:
    token = FeeToken("USD", "0x" + "1" * 40, 6, FixedRate(Decimal("0.10")), Decimal("1.50"))
    network = Network("exact", "evm", 1, "ETH", (), (token,))
    with opened(home) as store:
        with store.database.transaction() as transaction:
            create_row(network_rows.TABLE, transaction, store.vault, network)
        (row,) = store.database.read(f"SELECT {network_rows.COLUMNS} FROM networks")
        assert network_rows.from_row(row, store.vault) == network


def test_headers_of_a_node_are_not_part_of_the_described_interface() -> None:
    url = RpcUrl("https://node.example", 2, (NodeHeader("X-Key", Secret("hunter2")),))
    relayer = Relayer("r", "r", "dev", "evm", "0x" + "0" * 40, "s", custom_rpc_urls=(url,))
    (shown,) = msgspec.to_builtins(contract_view(relayer))["custom_rpc_urls"]
    assert shown == {"url": "https://node.example", "weight": 2}
    assert msgspec.to_builtins(response_view(url)) == shown | {"headers": ({"name": "X-Key"},)}
