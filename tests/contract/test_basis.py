"""The document tells the contract and our rulings apart, for each part of each field, parameter, status and header.

The table below repeats what the contract shows, from the contract itself: a label that claims more, or less, fails.
"""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from pages import basis as basis_page
from pages.openapi.contract import document
from pages.openapi.contract_schemas import MESSAGE
from relaydeck import basis
from relaydeck.basis import Basis, Word, contract, ruling, shown
from relaydeck.fields import field
from tests.test_open_items_page import ROWS

Json = dict[str, Any]
DOCUMENT = document()
SCHEMAS: dict[str, Json] = DOCUMENT["components"]["schemas"]
SECTIONS = {"2.1", "2.2", "2.3", "2.4", "4.1", "4.2", "4.3", "4.4", "4.5", "5", "7"}
ITEMS = [row[0] for row in ROWS]

# P presence, T type, V value, M meaning: the parts of a field that the contract alone decides.
_SIGNER_REQUEST = {"type": "PTVM", "id": "PTM", "config": "PTM"}
_ENVELOPE = {"data": "PTM", "error": "TM", "metadata": "TM", "success": "PTVM"}
_LIST = _ENVELOPE | {"pagination": "PTM"}
_STORE = dict.fromkeys(("address", "key_name", "role_id", "secret_id", "mount_point", "namespace"), "PT")
SHOWN: dict[str, dict[str, str]] = {
    "SignerEnvelope": _ENVELOPE,
    "NotificationEnvelope": _ENVELOPE,
    "SignerListEnvelope": _LIST,
    "RelayerListEnvelope": _LIST,
    "ErrorEnvelope": {"data": "PTVM", "message": "PTM", "success": "PTVM"},
    "Metadata": {"logs": "T", "traces": "TM"},
    "LogEntry": {"level": "PTM", "message": "PT"},
    "Pagination": {"current_page": "PTM", "per_page": "PT", "total_items": "PTVM"},
    "PlainSignerRequest": _SIGNER_REQUEST,
    "ProviderAKmsSignerRequest": _SIGNER_REQUEST,
    "ProviderBKmsSignerRequest": _SIGNER_REQUEST,
    "ProviderCSignerRequest": _SIGNER_REQUEST,
    "ProviderCTransitSignerRequest": _SIGNER_REQUEST,
    "ProviderDSignerRequest": _SIGNER_REQUEST,
    "ProviderESignerRequest": _SIGNER_REQUEST,
    "LocalConfig": {"key": "PT"},
    "KmsConfig": {"key_id": "PT", "region": "PT"},
    "SecretStoreConfig": _STORE,
    "TransitConfig": _STORE | {"pubkey": "PT"},
    "KeyServiceConfig": dict.fromkeys(
        ("api_private_key", "api_public_key", "organization_id", "private_key_id", "public_key"), "PT"
    ),
    "WalletServiceConfig": dict.fromkeys(("account_address", "api_key_id", "api_key_secret", "wallet_secret"), "PT"),
    "SecondKmsConfig": {"key": "PT", "service_account": "PT"},
    "Signer": {"id": "PTM", "type": "PTM", "config": "PTM"},
    "SignerConfig": dict.fromkeys(("address", "key_name", "mount_point", "namespace"), "T")
    | dict.fromkeys(
        (
            "account_address",
            "api_key_id",
            "api_public_key",
            "key_id",
            "organization_id",
            "private_key_id",
            "pubkey",
            "public_key",
            "region",
        ),
        "",
    ),
    "NotificationUpdate": {"type": "PTVM", "url": "PTM", "signing_key": "PTM"},
    "Notification": {"id": "PTM", "type": "PTVM", "url": "PTM", "has_signing_key": "PTM"},
    "Relayer": dict.fromkeys(
        (
            "id",
            "name",
            "network",
            "network_type",
            "address",
            "signer_id",
            "notification_id",
            "disabled_reason",
            "policies",
        ),
        "TM",
    )
    | dict.fromkeys(("paused", "system_disabled", "custom_rpc_urls"), "T"),
    "DisabledReason": {"details": "PTM", "type": "PTM"},
    "RpcUrl": {"url": "PT", "weight": "PT"},
    "Policies": dict.fromkeys(
        (
            "eip1559_pricing",
            "gas_limit_estimation",
            "gas_price_cap",
            "min_balance",
            "private_transactions",
            "whitelist_receivers",
        ),
        "T",
    ),
    "RpcRequest": {"jsonrpc": "PTM", "method": "PTM", "params": "PTM", "id": "P"},
    "RpcResponse": {"jsonrpc": "PTM", "id": "P", "result": "TM", "error": "TM"},
    "RpcError": {"code": "PT", "message": "PTM", "description": "PTM"},
    "FeeEstimateParams": {"fee_token": "PT", "network": "PT", "transaction": "PTM"},
    "FeeEstimateResult": {"conversion_rate": "PT", "estimated_fee": "PT", "method": "PTVM"},
}

# The type that the contract gives a field where ours is narrower.
TYPES = {
    ("Policies", "gas_price_cap"): "number",
    ("Policies", "min_balance"): "number",
    ("RpcRequest", "jsonrpc"): "string",
    ("RpcResponse", "jsonrpc"): "string",
    ("RpcError", "code"): "integer",
    ("RpcUrl", "weight"): "integer",
    ("LogEntry", "level"): "string",
    ("DisabledReason", "type"): "string",
    ("Relayer", "network_type"): "string",
}
NARROWING = {
    "const",
    "enum",
    "format",
    "maximum",
    "maxItems",
    "maxLength",
    "minimum",
    "minLength",
    "multipleOf",
    "not",
    "pattern",
}


def fields() -> list[tuple[str, str, Json]]:
    return [
        (name, field_name, described)
        for name, schema in SCHEMAS.items()
        for field_name, described in schema.get("properties", {}).items()
    ]


def words_in(node: Any) -> Iterator[str]:
    """Every word of the document, one by one."""
    if isinstance(node, dict):
        for told in node.get("x-relaydeck-basis", {}).values():
            yield from told.split("; ")
        for each in node.values():
            yield from words_in(each)
    elif isinstance(node, list):
        for each in node:
            yield from words_in(each)


@pytest.mark.parametrize("name", sorted(SCHEMAS.keys() - {"SignerRequest"}))
def test_the_parts_that_are_called_contract_are_those_that_it_shows(name: str) -> None:
    called = {
        field_name: "".join(
            part[0].upper()
            for part, told in described["x-relaydeck-basis"].items()
            if all(word.startswith("contract, section ") for word in told.split("; "))
        )
        for field_name, described in SCHEMAS[name]["properties"].items()
    }
    assert called == SHOWN[name]


@pytest.mark.parametrize(("schema", "name", "described"), fields(), ids=lambda each: str(each)[:40])
def test_a_field_tells_the_basis_of_each_of_its_parts(schema: str, name: str, described: Json) -> None:
    narrower = [each for each in (described, *described.get("anyOf", ())) if NARROWING & each.keys()]
    needed = {"presence", "type", "meaning"} | ({"value"} if narrower else set())
    assert sorted(needed - described["x-relaydeck-basis"].keys()) == []
    assert described["description"]


@pytest.mark.parametrize(("place", "kind"), TYPES.items(), ids=lambda each: str(each))
def test_a_field_keeps_the_type_that_the_contract_gives_it(place: tuple[str, str], kind: str) -> None:
    schema, name = place
    assert SCHEMAS[schema]["properties"][name]["type"] == kind


def test_every_word_names_a_section_or_a_row_of_the_open_items() -> None:
    told = set(words_in(DOCUMENT))
    sections = {word.removeprefix("contract, section ") for word in told if word.startswith("contract, section ")}
    items = {word.removeprefix("ruling: ") for word in told if word.startswith("ruling: ")}
    assert len(sections) + len(items) == len(told)
    assert sections == SECTIONS
    assert sorted(items - set(ITEMS)) == []


def test_every_ruling_that_code_names_is_a_row_of_the_open_items() -> None:
    named = [value[0] for value in vars(basis).values() if isinstance(value, tuple) and value and type(value) is tuple]
    assert {type(word) for word in named} == {Word}
    assert sorted(word.place for word in named if word.place not in ITEMS) == []


def test_every_status_is_a_ruling_and_every_message_of_an_operation_is_contract() -> None:
    for path, methods in DOCUMENT["paths"].items():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                assert response["x-relaydeck-basis"]["status"].startswith("ruling: "), (path, status)
                if MESSAGE in response:
                    assert response[MESSAGE]["x-relaydeck-basis"] == {"value": "contract, section 7"}


def test_a_field_cannot_be_declared_without_a_basis() -> None:
    assert inspect.signature(field).parameters["basis"].default is inspect.Parameter.empty


def test_the_parts_of_a_field_in_words() -> None:
    declared = shown("2.4").but(presence=ruling("when"), value=contract("2.4") + ruling("unit"))
    assert declared.parts() == {
        "presence": "ruling: when",
        "type": "contract, section 2.4",
        "value": "contract, section 2.4; ruling: unit",
        "meaning": "contract, section 2.4",
    }
    assert Basis(ruling("a"), ruling("b"), ruling("c")).parts().keys() == {"presence", "type", "meaning"}


def test_the_introduction_explains_the_labels() -> None:
    introduction = re.sub(r"\s+", " ", DOCUMENT["info"]["description"])
    for told in ("`contract, section 2.4`", "`ruling: …`", "`presence`", "`type`", "`value`", "`meaning`"):
        assert told in introduction


def test_the_page_of_fields_is_up_to_date() -> None:
    assert basis_page.PAGE.read_text("utf-8") == basis_page.page(), "run make docs"
