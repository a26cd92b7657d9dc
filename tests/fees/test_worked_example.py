"""The numbers of docs/fee-estimate.md, recomputed by the estimator from the example's own inputs."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
import rlp

from relaydeck.fees import Estimator, FeeOptions, Trace
from relaydeck.networks.model import CrossedRate, FeeModelName
from tests.fees.scene import ask, network, token, transaction
from tests.networks.fault_node import FaultNode, fault_nodes, words

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
        found = await ask(estimator, where, transaction(), "USDC", trace=trace)
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


class ExampleChain(FaultNode):
    """A chain of each family: the inputs of the examples."""

    def _result(self, mood: str, method: str, params: Any) -> Any:
        answers = {
            "eth_estimateGas": hex(25_000 if self.model == "arbitrum" else 21_000),
            "zks_estimateFee": {"gas_limit": hex(157_396)},
        }
        if method == "eth_call":
            return self._called(params[0]["data"])
        return answers.get(method) or super()._result(mood, method, params)

    def _called(self, data: str) -> str:
        if data.startswith("0x275aedd2"):
            return words(int(data[10:], 16) // 2 + 7000)
        if data.startswith("0xc94e6eeb"):
            return words(25_000, 4_000, 100, 9)
        return words(124_870 if self.model == "op_stack" else 98_765)

    model: FeeModelName = "ethereum"


def test_there_is_an_example_for_each_fee_model() -> None:
    assert [model for model, _ in model_examples()] == list(MODELS_IN_ORDER)


MODELS_IN_ORDER = ("ethereum", "op_stack", "scroll", "arbitrum", "zksync", "gas_limit_charged")


@pytest.mark.parametrize(("model", "numbers"), model_examples())
async def test_the_example_of_a_fee_model(model: FeeModelName, numbers: list[str]) -> None:
    node = ExampleChain()
    node.model = model
    await node.start()
    limit = 90_000 if model == "gas_limit_charged" else 21_000
    raw = "0x02" + rlp.encode([31337, 0, 1, 2, limit, b"\x99" * 20, 1, b"", []]).hex()
    estimator, trace = Estimator(FeeOptions()), Trace()
    where = msgspec.structs.replace(network(node.url), fee_model=model)
    found = await ask(estimator, where, raw, trace=trace)
    await estimator.close()
    await node.stop()
    fee = next(step for step in trace.steps if step["step"] == "native fee")
    added = sum(int(fee.get(part, 0)) for part in ("l1_data_fee_wei", "operator_fee_wei"))
    assert [fee["gas"], fee["per_gas_wei"], str(added), fee["fee_wei"]] == numbers
    assert Decimal(found.estimated_fee).scaleb(18) == int(numbers[-1])
