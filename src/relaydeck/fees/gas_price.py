"""The price of gas in the next block, in Wei."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from relaydeck.fees.options import FeeOptions
from relaydeck.networks.evm.batcher import Batcher
from relaydeck.networks.evm.errors import NodeError, UrlFailed
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import BLOCK_NUMBER, Question, read_quantities, read_quantity

GAS_PRICE: Question[int] = Question("eth_gasPrice", (), read_quantity)
PRIORITY_FEE: Question[int] = Question("eth_maxPriorityFeePerGas", (), read_quantity)
BLOB_BASE_FEE: Question[int] = Question("eth_blobBaseFee", (), read_quantity)


@dataclass(frozen=True, slots=True)
class Price:
    """The price per gas. `how` records its source for the trace."""

    per_gas: int
    block: int
    node: str
    how: dict[str, Any]
    blob_base_fee: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """The answer of `eth_feeHistory`: one reward for each block that had transactions."""

    block: int
    next_base_fee: int
    rewards: tuple[int, ...]
    next_blob_base_fee: int | None


async def fee_market_price(batcher: Batcher, pool: NodePool, options: FeeOptions) -> Price:
    """The next block's base fee plus the median of the recent blocks' tips at the percentile."""
    answer = await batcher.ask(_history_question(options))
    history = answer.value
    pool.seen_block(history.block)
    if history.rewards:
        priority, source = upper_median(history.rewards), "eth_feeHistory"
    else:
        priority, source = await _suggested_priority(batcher)
    how = {
        "method": "eth_feeHistory",
        "base_fee": history.next_base_fee,
        "priority_fee": priority,
        "priority_from": source,
        "percentile": str(options.priority_percentile),
        "blocks_with_transactions": len(history.rewards),
    }
    return Price(history.next_base_fee + priority, history.block, answer.node, how, history.next_blob_base_fee)


async def _suggested_priority(batcher: Batcher) -> tuple[int, str]:
    """The node's own suggestion, for when blocks are empty or the node returns no rewards."""
    try:
        return (await batcher.ask(PRIORITY_FEE)).value, PRIORITY_FEE.method
    except NodeError:
        return 0, "no transaction in any block, and no suggestion from the node"


async def legacy_price(batcher: Batcher, pool: NodePool) -> Price:
    answer, block = await asyncio.gather(batcher.ask(GAS_PRICE), batcher.ask(BLOCK_NUMBER))
    pool.seen_block(block.value)
    return Price(answer.value, block.value, answer.node, {"method": GAS_PRICE.method})


async def blob_base_fee(batcher: Batcher) -> int:
    return (await batcher.ask(BLOB_BASE_FEE)).value


def upper_median(rewards: Sequence[int]) -> int:
    """Of an even number of tips, the higher of the two in the middle: an estimate is rather too high than too low."""
    return sorted(rewards)[len(rewards) // 2]


def _history_question(options: FeeOptions) -> Question[History]:
    percentile = options.priority_percentile
    wanted = int(percentile) if percentile == int(percentile) else percentile
    return Question("eth_feeHistory", (hex(options.history_blocks), "latest", (wanted,)), read_history)


def read_history(answer: Any) -> History:
    if not isinstance(answer, dict):
        raise UrlFailed("answered something other than a fee history")
    base_fees = read_quantities(answer.get("baseFeePerGas"))
    ratios = answer.get("gasUsedRatio")
    if not isinstance(ratios, list) or not ratios or len(base_fees) != len(ratios) + 1:
        raise UrlFailed("answered an inconsistent fee history")
    return History(
        block=read_quantity(answer.get("oldestBlock")) + len(ratios) - 1,
        next_base_fee=base_fees[-1],
        rewards=_rewards(answer.get("reward"), ratios),
        next_blob_base_fee=_blob_base_fee(answer.get("baseFeePerBlobGas")),
    )


def _rewards(rows: Any, ratios: list[Any]) -> tuple[int, ...]:
    if rows is None:
        return ()
    if not isinstance(rows, list) or len(rows) != len(ratios):
        raise UrlFailed("answered an inconsistent fee history")
    found = []
    for row, ratio in zip(rows, ratios, strict=True):
        if not ratio or row is None:  # the reward of an empty block is zero by convention
            continue
        tips = read_quantities(row)
        if len(tips) != 1:
            raise UrlFailed("answered an inconsistent fee history")
        found.extend(tips)
    return tuple(found)


def _blob_base_fee(answer: Any) -> int | None:
    """None when the node returns none, or 0, which no chain with blobs has (the minimum is 1)."""
    if not answer:
        return None
    return read_quantities(answer)[-1] or None
