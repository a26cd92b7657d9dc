"""The numbers of docs/fee-estimate.md, recomputed by the estimator from the example's own inputs."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
import rlp

from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeOptions, Trace
from relaydeck.fees.models import MODELS
from relaydeck.networks.model import CrossedRate, FeeModelName
from tests.support.fault_node import FaultNode, fault_nodes, words
from tests.support.fee_scene import ask, network, token, transaction

PAGE = Path(__file__).parents[2] / "docs" / "fee-estimate.md"
NOW = 1_800_000_000
NATIVE_USD, TOKEN_USD = "0x" + "aa" * 20, "0x" + "bb" * 20


def example() -> list[str]:
    page = PAGE.read_text()
    section = page[page.index("## Worked example") : page.index("### One example")]
    return [row.split("|")[2].strip() for row in section.splitlines() if re.match(r"\| (?!step|-)", row)]


# sentence: 4.5-meaning
async def test_the_worked_example() -> None:
    gas, base, tips, priority, price, wei, native_usd, token_usd, before, rate, exact, fee = example()
    async with fault_nodes("healthy") as (node,):
        node.answers = {
            "eth_simulateV1": [{"number": "0x3e8", "calls": [{"gasUsed": hex(int(gas)), "status": "0x1"}]}],
            "eth_feeHistory": {
                "oldestBlock": "0x64",
                "baseFeePerGas": ["0x1"] * 4 + [hex(int(base))],
                "gasUsedRatio": [0.4, 0, 0.6, 0.2],
                "reward": [[hex(int(tip))] for tip in tips.split(", ")],
            },
            f"eth_call 0x313ce567 {NATIVE_USD}": words(8),
            f"eth_call 0x313ce567 {TOKEN_USD}": words(8),
            "eth_call 0x313ce567": words(6),
            f"eth_call 0xfeaf968c {NATIVE_USD}": words(1, int(native_usd), NOW, NOW, 1),
            f"eth_call 0xfeaf968c {TOKEN_USD}": words(1, int(token_usd), NOW, NOW, 1),
        }
        crossed = CrossedRate(native_usd=NATIVE_USD, token_usd=TOKEN_USD, max_age=60)
        estimator, trace = Estimator(FeeOptions(), now=lambda: NOW), Trace()
        where = network(node.url, tokens=(token(crossed, margin="1.5"),))
        found = await ask(estimator, where, transaction(limit=90_000), "USDC", trace=trace)
        await estimator.close()
    steps = {step["step"]: step for step in trace.steps}
    assert [
        steps["gas"]["gas"],
        steps["price"]["base_fee"],
        steps["price"]["priority_fee"],
        steps["price"]["used_per_gas_wei"],
        steps["native fee"]["fee_wei"],
        steps["rate"]["before_margin"],
        steps["rate"]["conversion_rate"],
        steps["rounding"]["exact_fee"],
        steps["result"]["estimated_fee"],
    ] == [gas, base, priority, price, wei, before, rate, exact, fee]
    assert (found.conversion_rate, found.estimated_fee) == (rate, fee)


def model_examples() -> list[tuple[FeeModelName, list[str]]]:
    page = PAGE.read_text()
    section = page[page.index("### One example") : page.index("## When there is no")]
    found = re.findall(r"^\| `(\w+)`[^|]*\|(.*)\|$", section, re.MULTILINE)
    return [(model, [cell.strip() for cell in cells.split("|")]) for model, cells in found]


PADDED = 2_165 * 5 * 11 // 10 // 100  # of 118 bytes, as Arbitrum's node estimates: 16 units each, 256 more, 1 % more
CALLS: dict[str, dict[str, str]] = {
    "op_stack": {"0x49948e0e": words(124_870)},
    "mantle": {"0x49948e0e": words(124_870), "0x06f837d3": words(3)},
    "celo": {"0xeab43d97": words(1, 50_000), "0xefb7601d": words(4, 3)},
    "arbitrum": {"0xc94e6eeb": words(21_000 + PADDED, PADDED, 100, 5), "0xf918379a": words(100)},
    "scroll": {
        "0x519b4bd3": words(2 * 10**9),
        "0x84189161": words(10**9),
        "0x23e524ac": words(300),
        "0x6a5e67e5": words(400),
        "0x6112d6db": words(10_000),
    },
}


class ExampleChain(FaultNode):
    """A chain of each family: the inputs of the examples."""

    def _result(self, mood: str, method: str, params: Any) -> Any:
        answers = {
            "eth_estimateGas": hex(21_000 + PADDED if self.model == "arbitrum" else 21_000),
            "zks_estimateFee": {"gas_limit": hex(157_396)},
            "linea_estimateGas": {"priorityFeePerGas": hex(250)},
        }
        if method == "eth_call":
            return self._called(params[0]["data"])
        return answers.get(method) or super()._result(mood, method, params)

    def _called(self, data: str) -> str:
        if data.startswith("0x275aedd2"):
            return words(int(data[10:], 16) // 2 + 7000)
        return CALLS[self.model].get(data[:10], "0x")

    model: FeeModelName = "ethereum"


def test_there_is_an_example_for_each_fee_model() -> None:
    assert [model for model, _ in model_examples()] == list(MODELS)


@pytest.mark.parametrize(("model", "numbers"), model_examples())
async def test_the_example_of_a_fee_model(model: FeeModelName, numbers: list[str]) -> None:
    node = ExampleChain()
    node.model = model
    await node.start()
    limit = 90_000 if model == "gas_limit_charged" else 21_000
    fields = [31337, 0, 1, 2, limit, b"\x99" * 20, 1, b"", []]
    kind, more = ("0x7b", [b"\x77" * 20]) if model == "celo" else ("0x02", [])
    raw = kind + rlp.encode([*fields, *more]).hex()
    estimator, trace = Estimator(FeeOptions()), Trace()
    where = msgspec.structs.replace(network(node.url), fee_model=model)
    found = await ask(estimator, where, raw, trace=trace)
    await estimator.close()
    await node.stop()
    fee = next(step for step in trace.steps if step["step"] == "native fee")
    added = sum(int(fee.get(part, 0)) for part in ("l1_data_fee_wei", "operator_fee_wei"))
    assert [fee["gas"], fee["per_gas_wei"], str(added), fee["fee_wei"]] == numbers
    assert Decimal(found.estimated_fee).scaleb(18) == int(numbers[-1])
