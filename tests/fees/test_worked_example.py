"""The numbers of docs/fee-estimate.md, recomputed by the estimator from the example's own inputs."""

import re
from pathlib import Path

from relaydeck.fees import Estimator, FeeOptions, Trace
from relaydeck.networks.model import CrossedRate
from tests.fees.scene import ask, network, token, transaction
from tests.networks.fault_node import fault_nodes, words

PAGE = Path(__file__).parents[2] / "docs" / "fee-estimate.md"
NOW = 1_800_000_000
NATIVE_USD, TOKEN_USD = "0x" + "aa" * 20, "0x" + "bb" * 20


def example() -> list[str]:
    page = PAGE.read_text()
    section = page[page.index("## Worked example") : page.index("## When there is no")]
    return [row.split("|")[2].strip() for row in section.splitlines() if re.match(r"\| (?!step|-)", row)]


async def test_the_worked_example() -> None:
    gas, base, tips, priority, price, wei, native_usd, token_usd, before, rate, exact, fee = example()
    async with fault_nodes("healthy") as (node,):
        node.answers = {
            "eth_estimateGas": hex(int(gas)),
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
