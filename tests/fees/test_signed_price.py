"""What a signed transaction pays, and when it cannot be sent. Every case stands at a bound."""

from typing import Any

import pytest

from relaydeck.fees.errors import InvalidParams
from relaydeck.fees.estimator import price_fields
from relaydeck.fees.gas_price import Price, check_blob_price, check_limit, check_nonce, check_price, own_price
from relaydeck.networks.evm.transaction import Transaction

CANNOT = "the transaction cannot be sent: "


def sent(**fields: Any) -> Transaction:
    whole = {"type": 2, "chain_id": 1, "nonce": 5, "gas_limit": 100, "to": None, "value": 0, "data": b""}
    return Transaction(**whole | fields)


def price(base: int | None) -> Price:
    return Price(110, 7, "node", {"method": "eth_feeHistory"}, None, base)


@pytest.mark.parametrize(
    ("fields", "base", "pays_tip", "per_gas"),
    [
        ({"gas_price": 150}, 100, True, 150),
        ({"gas_price": 100}, 100, True, 100),
        ({"gas_price": 150}, 100, False, 100),
        ({"gas_price": 0}, None, True, 0),
        ({"max_fee_per_gas": 500, "max_priority_fee_per_gas": 20}, 100, True, 120),
        ({"max_fee_per_gas": 110, "max_priority_fee_per_gas": 20}, 100, True, 110),
        ({"max_fee_per_gas": 500, "max_priority_fee_per_gas": 20}, 100, False, 100),
        ({"max_fee_per_gas": 500, "max_priority_fee_per_gas": 0}, 100, True, 100),
        ({"max_fee_per_gas": 0, "max_priority_fee_per_gas": 0}, None, True, 0),
    ],
)
def test_the_price_follows_its_own_fields(
    fields: dict[str, int], base: int | None, pays_tip: bool, per_gas: int
) -> None:
    name = "gas price" if "gas_price" in fields else "max fee per gas"
    how = {"method": "eth_feeHistory", "paid_from": f"its own {name}"}
    assert own_price(sent(**fields), price(base), pays_tip) == Price(per_gas, 7, "node", how, None, base)


def test_a_max_fee_of_nothing_is_below_any_base_fee() -> None:
    with pytest.raises(InvalidParams) as failure:
        check_price(sent(max_fee_per_gas=0, max_priority_fee_per_gas=0), 1)
    words = "its max fee per gas of 0 Wei is below the next block's base fee of 1 Wei"
    assert failure.value.description == CANNOT + words


@pytest.mark.parametrize(("need", "most"), [(None, 100), (100, 100), (100, None)])
def test_a_limit_within_its_bounds(need: int | None, most: int | None) -> None:
    check_limit(sent(), need, most)


@pytest.mark.parametrize(
    ("need", "most", "words"),
    [
        (None, 99, "its gas limit of 100 is above the network's limit of 99"),
        (101, 200, "its gas limit of 100 is below the 101 gas that it needs"),
        (101, None, "its gas limit of 100 is below the 101 gas that it needs"),
    ],
)
def test_a_limit_outside_its_bounds(need: int | None, most: int | None, words: str) -> None:
    with pytest.raises(InvalidParams) as failure:
        check_limit(sent(), need, most)
    assert failure.value.description == CANNOT + words


def test_a_nonce_is_used_once() -> None:
    check_nonce(sent(), 5)
    with pytest.raises(InvalidParams) as failure:
        check_nonce(sent(), 6)
    words = "its nonce 5 is already used; the next nonce of its sender is 6"
    assert failure.value.description == CANNOT + words


def test_the_price_of_blobs() -> None:
    check_blob_price(sent(max_fee_per_blob_gas=8), 8)
    with pytest.raises(InvalidParams) as failure:
        check_blob_price(sent(max_fee_per_blob_gas=8), 9)
    words = "its max fee per blob gas of 8 Wei is below the blob base fee of 9 Wei"
    assert failure.value.description == CANNOT + words
    with pytest.raises(InvalidParams, match="max fee per blob gas of 0 Wei is below the blob base fee of 1 Wei"):
        check_blob_price(sent(), 1)


@pytest.mark.parametrize(
    ("fields", "blob_base_fee", "asked"),
    [
        ({"type": 0}, None, {"gasPrice": "0x6e"}),
        ({"type": 1}, None, {"gasPrice": "0x6e"}),
        ({"type": 2}, None, {}),
        ({"type": 3, "blob_hashes": ("0x01",), "max_fee_per_blob_gas": 8}, 7, {"maxFeePerBlobGas": "0x8"}),
        ({"type": 3, "blob_hashes": ("0x01",), "max_fee_per_blob_gas": 8}, 9, {"maxFeePerBlobGas": "0x9"}),
        ({"type": 3, "blob_hashes": ("0x01",)}, None, {"maxFeePerBlobGas": "0x0"}),
    ],
)
def test_the_fields_that_a_transaction_runs_with(
    fields: dict[str, Any], blob_base_fee: int | None, asked: dict[str, str]
) -> None:
    market = {} if fields["type"] < 2 else {"maxFeePerGas": "0x6e", "maxPriorityFeePerGas": "0x6e"}
    price = Price(110, 7, "node", {}, blob_base_fee, 100)
    assert price_fields(sent(**fields), price) == market | asked
