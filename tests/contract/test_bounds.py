"""Every field has a bound that no honest value meets: a record cannot take as much memory as a body may have."""

import hashlib
import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from pages.openapi.contract import document
from relaydeck.admin.documents import read_document
from relaydeck.api.wire import NotificationUpdate, SignerRequest
from relaydeck.contract.operations import encode_page
from relaydeck.errors import BadRequest
from relaydeck.fields import fields_of
from relaydeck.http import request
from relaydeck.http.body import body_decoder
from relaydeck.http.request import read_page
from relaydeck.provisioning.document import RecordDocument
from relaydeck.secret import LONGEST_SECRET, Secret
from relaydeck.signers.signer_types import SHAPES, new_signer
from relaydeck.store.listing import Listing
from relaydeck.store.record_table import LONGEST_FACT, to_json
from relaydeck.web_addresses import LONGEST_ADDRESS
from tests.support import shapes

JSON = {b"content-type": b"application/json"}
_signer, _update = body_decoder(SignerRequest), body_decoder(NotificationUpdate)


def fields_with_lengths() -> Iterator[tuple[str, str, int]]:
    for kind, shape in SHAPES.items():
        for field in fields_of(shape):
            longest = {Secret: LONGEST_SECRET, msgspec.Raw: 65_536}.get(field.type, field.longest)
            assert longest is not None, f"{kind}.{field.name} has no bound"
            yield kind, field.name, longest


def create(kind: str, name: str, length: int) -> None:
    request = deepcopy(shapes.request(kind))
    nested = isinstance(request["config"].get(name), dict)
    request["config"][name] = {"a": "x" * (length - len('{"a": ""}'))} if nested else "x" * length
    decoded = _signer(JSON, json.dumps(request).encode())
    new_signer(decoded.__struct_config__.tag, decoded.config, decoded.id)


@pytest.mark.parametrize(("kind", "name", "longest"), list(fields_with_lengths()))
def test_a_field_of_a_signer_is_bounded_in_bytes(kind: str, name: str, longest: int) -> None:
    create(kind, name, longest)
    with pytest.raises(BadRequest) as refusal:
        create(kind, name, longest + 1)
    assert name in refusal.value.reason and str(longest) in refusal.value.reason


@pytest.mark.parametrize(("field", "longest"), [("url", LONGEST_ADDRESS), ("signing_key", LONGEST_SECRET)])
def test_a_field_of_a_notification_is_bounded_in_bytes(field: str, longest: int) -> None:
    begin = "https://a.example/" if field == "url" else ""
    _update(JSON, json.dumps({field: begin.ljust(longest, "x")}).encode())
    with pytest.raises(BadRequest, match=str(longest)):
        _update(JSON, json.dumps({field: begin.ljust(longest + 1, "x")}).encode())


def test_the_document_shows_the_bounds() -> None:
    schemas = document()["components"]["schemas"]
    assert schemas["SecretStoreConfig"]["properties"]["address"]["maxLength"] == 4096
    assert schemas["LocalConfig"]["properties"]["key"]["maxLength"] == LONGEST_SECRET
    assert schemas["NotificationUpdate"]["properties"]["url"]["maxLength"] == LONGEST_ADDRESS


RELAYER = {"name": "r", "network": "dev", "network_type": "evm", "signer_id": "ops", "address": "0x" + "11" * 20}


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("custom_rpc_urls", [{"url": "https://a.example/"}] * 65, "custom_rpc_urls: must have at most 64 entries"),
        (
            "policies",
            {"whitelist_receivers": ["0x" + "22" * 20] * 1001},
            "policies.whitelist_receivers: must have at most 1000 entries",
        ),
        (
            "custom_rpc_urls",
            [{"url": "https://a.example/" + "x" * LONGEST_ADDRESS}],
            f"custom_rpc_urls[0].url: must have at most {LONGEST_ADDRESS} characters",
        ),
    ],
)
def test_lists_of_a_document_are_bounded(field: str, value: Any, problem: str) -> None:
    document = RecordDocument("relayers", "r", {**RELAYER, "id": "r", field: value})
    assert document.mistakes == [tuple(problem.split(": "))]


# Pages


class OneItem:
    """A listing with one long item: what `encode_page` reads of a listing."""

    total = 1

    def items(self, _start: int, _stop: int) -> list[bytes]:
        return [b'"' + b"x" * 100 + b'"']

    def notes(self, _start: int, _stop: int) -> list[str]:
        return []


def test_a_page_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    listing: Listing = OneItem()  # type: ignore[assignment]
    assert b"xxx" in encode_page(listing, read_page(b"", 10))
    monkeypatch.setattr(request, "MOST_PAGE_BYTES", 100)
    with pytest.raises(BadRequest, match="more than 100 bytes: use a smaller per_page"):
        encode_page(listing, read_page(b"", 10))


def test_items_are_not_encoded_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "MOST_PAGE_BYTES", 100)
    items = iter(["x" * 40] * 1000)
    with pytest.raises(BadRequest, match="more than 100 bytes: use a smaller per_page"):
        request.encode_items(items)
    assert len(list(items)) == 1000 - 3


# The audit log


def test_a_long_value_is_recorded_as_its_digest() -> None:
    long, listed = "x" * (LONGEST_FACT + 1), ["0x" + "11" * 20] * 100
    facts = json.loads(to_json({"short": "x" * LONGEST_FACT, "long": long, "listed": listed}))
    assert facts["short"] == "x" * LONGEST_FACT
    assert facts["long"] == f"sha256:{hashlib.sha256(long.encode()).hexdigest()} of 1025 bytes"
    assert facts["listed"].startswith("sha256:") and len(facts["listed"]) < 100


# Cheap requests


def test_fifty_thousand_unknown_fields_are_refused_without_being_compared() -> None:
    body = json.dumps({f"field{number}": number for number in range(50_000)}).encode()
    with pytest.raises(BadRequest, match="the body has more than 10000 values"):
        read_document(JSON, body)


def test_of_many_unknown_keys_only_the_first_are_named() -> None:
    document = RecordDocument("relayers", "r", {**RELAYER, "id": "r"} | dict.fromkeys(map(str, range(9000)), 1))
    assert document.mistakes == [*[("", "unknown field")] * 20, ("", "has 8980 more unknown keys")]
