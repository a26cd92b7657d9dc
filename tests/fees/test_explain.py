"""The steps that an estimate writes into its trace, each as a whole."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from msgspec import UNSET

from relaydeck.fees import explain
from relaydeck.fees.exact import scaled
from relaydeck.fees.gas import Gas
from relaydeck.fees.gas_price import Price
from relaydeck.fees.model import FeeEstimate, Trace
from relaydeck.fees.models import Charge
from relaydeck.fees.rates import NATIVE, Feed, Rate, Round, Sequencer
from relaydeck.networks.evm.transaction import Transaction
from relaydeck.networks.model import FeedRate
from relaydeck.relayers.model import Policies
from tests.support.fee_scene import SENDER, network, relayer, token

TO, SIGNED_BY, FEED = "0x" + "99" * 20, "0x" + "11" * 20, "0x" + "fe" * 20
CALL = Transaction(type=2, chain_id=1, nonce=7, gas_limit=21_000, to=TO, value=5, data=b"\1\2")
CREATION = Transaction(
    type=3, chain_id=1, nonce=0, gas_limit=9, to=None, value=0, data=b"", blob_hashes=("0x01",), sender=SIGNED_BY
)


def steps(write: Callable[[Trace], None]) -> list[dict[str, Any]]:
    write(trace := Trace())
    return trace.steps


def test_the_inputs_of_an_unsigned_call_paid_in_a_token() -> None:
    found = steps(lambda trace: explain.inputs(trace, relayer(), network(), token(), CALL))
    assert found == [
        {"step": "inputs", "relayer": "r1", "network": "local", "chain_id": "31337", "fee_token": "USDC"},
        {
            "step": "transaction",
            "type": "2",
            "signed": False,
            "sender": SENDER,
            "to": TO,
            "value_wei": "5",
            "nonce": "7",
            "data_bytes": "2",
            "gas_limit": "21000",
            "blobs": "0",
        },
    ]


def test_the_inputs_of_a_signed_contract_creation_paid_in_the_native_coin() -> None:
    found = steps(lambda trace: explain.inputs(trace, relayer(), network(), None, CREATION))
    assert found == [
        {"step": "inputs", "relayer": "r1", "network": "local", "chain_id": "31337", "fee_token": "ETH"},
        {
            "step": "transaction",
            "type": "3",
            "signed": True,
            "sender": SIGNED_BY,
            "to": "(contract creation)",
            "value_wei": "0",
            "nonce": "0",
            "data_bytes": "0",
            "gas_limit": "9",
            "blobs": "1",
        },
    ]


@pytest.mark.parametrize(
    ("policies", "cap", "receivers"),
    [
        (Policies(), None, []),
        (Policies(gas_price_cap=9, whitelist_receivers=(TO,)), "9", [TO]),
        (Policies(gas_price_cap=0), "0", []),
    ],
)
def test_the_policy(policies: Policies, cap: str | None, receivers: list[str]) -> None:
    assert steps(lambda trace: explain.policy(trace, policies)) == [
        {
            "step": "policy",
            "gas_limit_estimation": True,
            "eip1559_pricing": True,
            "gas_price_cap_wei": cap,
            "whitelist_receivers": receivers,
        }
    ]


def test_gas_that_a_node_estimated() -> None:
    found = Gas(21_000, "eth_simulateV1", 26_000, {"to": TO})
    assert steps(lambda trace: explain.gas(trace, found, "node.example")) == [
        {
            "step": "gas",
            "gas": "21000",
            "source": "eth_simulateV1",
            "limit_needed": "26000",
            "node": "node.example",
            "asked": {"to": TO},
        }
    ]


def test_gas_that_the_transaction_sets() -> None:
    source = "the transaction's own limit (gas_limit_estimation is off)"
    assert steps(lambda trace: explain.gas(trace, Gas(9, "", None, {}), "")) == [
        {"step": "gas", "gas": "9", "source": source}
    ]


@pytest.mark.parametrize(
    ("cap", "used", "seconds", "shown"),
    [
        (UNSET, 30, 1.23456, {"seconds_old": "1.235", "gas_price_cap_wei": None, "capped": False}),
        (20, 20, -0.5, {"seconds_old": "0.000", "gas_price_cap_wei": "20", "capped": True}),
    ],
)
def test_the_price(cap: Any, used: int, seconds: float, shown: dict[str, Any]) -> None:
    found = Price(per_gas=30, block=100, node="node.example", how={"base_fee_wei": 28})
    assert steps(lambda trace: explain.price(trace, found, cap, used, seconds)) == [
        {
            "step": "price",
            "base_fee_wei": "28",
            "node": "node.example",
            "block": "100",
            "next_block_time": None,
            "per_gas_wei": "30",
            "used_per_gas_wei": str(used),
            **shown,
        }
    ]


def test_the_native_fee_without_blobs() -> None:
    assert steps(lambda trace: explain.native_fee(trace, Charge(2, {}, {}), 3, 0, 0, 6)) == [
        {"step": "native fee", "gas": "2", "per_gas_wei": "3", "fee_wei": "6"}
    ]


def test_the_native_fee_with_blobs() -> None:
    assert steps(lambda trace: explain.native_fee(trace, Charge(2, {}, {}), 3, 5, 7, 41)) == [
        {"step": "blobs", "blob_gas": "5", "blob_base_fee_wei": "7", "fee_wei": "35"},
        {"step": "native fee", "gas": "2", "per_gas_wei": "3", "fee_wei": "41"},
    ]


def test_the_parts_that_a_fee_model_adds() -> None:
    charge = Charge(2, {"l1_data_fee_wei": 30, "operator_fee_wei": 4}, {"data_bytes": 9})

    def write(trace: Trace) -> None:
        explain.fee_model(trace, "op_stack", charge)
        explain.native_fee(trace, charge, 3, 0, 0, 40)

    parts = {"l1_data_fee_wei": "30", "operator_fee_wei": "4"}
    assert steps(write) == [
        {"step": "fee model", "name": "op_stack", "charged_gas": "2", **parts, "data_bytes": "9"},
        {"step": "native fee", "gas": "2", "per_gas_wei": "3", **parts, "fee_wei": "40"},
    ]


def test_the_rate_of_the_native_coin() -> None:
    assert steps(lambda trace: explain.rate(trace, None, NATIVE, 0)) == [
        {"step": "rate", "source": "the native coin itself", "conversion_rate": "1"}
    ]


def test_a_fixed_rate() -> None:
    found = Rate(scaled(25005, 1), scaled(25005, 1))
    assert steps(lambda trace: explain.rate(trace, token(), found, 0)) == [
        {
            "step": "rate",
            "source": "FixedRate",
            "block": None,
            "rounds": [],
            "before_margin": "2500.5",
            "margin_percent": "0",
            "conversion_rate": "2500.5",
        }
    ]


def test_a_rate_from_a_feed() -> None:
    answer = Round(Feed(FEED, 60), decimals=2, price=200_050, round_id=9, updated_at=1_000, before=(200_000, 900))
    found = Rate(scaled(203, 0), scaled(200, 0), (answer,), 100, Sequencer(True, 500, 60))
    priced = token(FeedRate(feed=FEED, max_age=60), margin="1.50")
    assert steps(lambda trace: explain.rate(trace, priced, found, 1_012.4)) == [
        {
            "step": "rate",
            "source": "FeedRate",
            "block": "100",
            "rounds": [
                {
                    "feed": FEED,
                    "round": "9",
                    "price": "2000.5",
                    "updated_at": "1000",
                    "seconds_old": "12",
                    "max_age": "60",
                    "min_price": "0.000000000001",
                    "max_price": "1000000000000",
                    "price_before": "2000",
                    "max_move_percent": "50",
                },
            ],
            "sequencer_up": True,
            "sequencer_since": "500",
            "before_margin": "200",
            "margin_percent": format(Decimal("1.50"), "f"),
            "conversion_rate": "203",
        }
    ]


def test_the_rounding_and_the_result() -> None:
    estimate = FeeEstimate("2", "0.13")
    assert steps(lambda trace: explain.result(trace, scaled(1251, 4), 2, estimate)) == [
        {"step": "rounding", "exact_fee": "0.1251", "decimals": "2", "rounded_up": "0.13"},
        {"step": "result", "conversion_rate": "2", "estimated_fee": "0.13"},
    ]
