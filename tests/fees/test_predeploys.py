"""Fee models that read a contract of the chain, placed at its address on a real node (anvil).

The contracts are stand-ins, and anvil does not charge by them: this proves how the contracts are called and read.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import Trace
from relaydeck.fees.models import arbitrum, op_stack, scroll
from relaydeck.networks.model import FeeModelName
from tests.node.process import running_anvil
from tests.support.fee_chain import HARDHAT_KEY, Chain, compiled
from tests.support.fee_scene import ask, network

OTHER = "0x" + "99" * 20
PRICES = (20 * 10**9, 10**9, 230_759, 417_565_260, 10_000)


@pytest.fixture(scope="module")
def anvil() -> Iterator[Chain]:
    with running_anvil() as url:
        chain = Chain(url, HARDHAT_KEY)
        place(chain, scroll.ORACLE, "scroll_oracle", *PRICES)
        place(chain, arbitrum.NODE_INTERFACE, "node_interface")
        place(chain, op_stack.ORACLE, "bound_oracle")
        yield chain
        chain.close()


def place(chain: Chain, address: str, contract: str, *values: int) -> None:
    chain.rpc("anvil_setCode", address, "0x" + compiled(contract, "bytecode_runtime").hex())
    for slot, value in enumerate(values):
        chain.rpc("anvil_setStorageAt", address, f"0x{slot:064x}", f"0x{value:064x}")


async def steps_of(estimator: Estimator, chain: Chain, model: FeeModelName, raw: str) -> dict[str, dict[str, Any]]:
    where = msgspec.structs.replace(network(chain.url), fee_model=model)
    trace = Trace()
    await ask(estimator, where, raw, trace=trace)
    return {step["step"]: step for step in trace.steps}


def transfer(chain: Chain, data: str = "0x") -> str:
    return chain.sign({"to": OTHER, "value": 1, "data": data, "maxFeePerGas": 10**11, "maxPriorityFeePerGas": 10**9})


async def test_scroll_charges_for_the_compressed_size_of_the_signed_transaction(
    anvil: Chain, estimator: Estimator
) -> None:
    raw = transfer(anvil, "0x" + "ab" * 320)
    steps = await steps_of(estimator, anvil, "scroll", raw)
    size = scroll.compressed_size(bytes.fromhex(raw[2:]))
    assert size < len(bytes.fromhex(raw[2:])) - 250
    assert steps["native fee"]["l1_data_fee_wei"] == str(scroll.data_fee(size, *PRICES))


async def test_arbitrum_charges_the_gas_that_the_node_interface_reports(anvil: Chain, estimator: Estimator) -> None:
    steps = await steps_of(estimator, anvil, "arbitrum", transfer(anvil, "0x" + "ab" * 33))
    assert steps["fee model"] == {
        "step": "fee model",
        "name": "arbitrum",
        "charged_gas": str(64_000 + 16 * 33),
        "gas_components": str(64_000 + 16 * 33),
        "estimate_confirmed": False,
        "gas_for_l1": str(4_000 + 16 * 33),
        "padding_of_node": "0",
    }
    base = int(steps["price"]["base_fee"])
    assert int(steps["native fee"]["fee_wei"]) == (64_000 + 16 * 33) * base


async def test_arbitrum_asks_about_a_creation_without_a_receiver(anvil: Chain, estimator: Estimator) -> None:
    fields = {"data": "0x600a600c600039600a6000f3602a60005260206000f3", "value": 1, "maxFeePerGas": 10**11}
    raw = anvil.sign(fields | {"maxPriorityFeePerGas": 10**9})
    steps = await steps_of(estimator, anvil, "arbitrum", raw)
    assert steps["fee model"]["gas_for_l1"] == str(4_000 + 16 * 22)


async def test_an_oracle_with_only_the_upper_bound(anvil: Chain, estimator: Estimator) -> None:
    steps = await steps_of(estimator, anvil, "op_stack", transfer(anvil))
    model = steps["fee model"]
    assert (model["l1_data_fee_from"], model["operator_fee_wei"]) == ("getL1FeeUpperBound", "0")
    assert int(model["l1_data_fee_wei"]) == 1_000 * (int(model["data_bytes"]) + 68)
