"""The price of gas in the next block, in Wei."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import UNSET, UnsetType

from relaydeck.fees.options import FeeOptions
from relaydeck.networks.evm.batcher import Batcher
from relaydeck.networks.evm.errors import NodeError, UrlFailed
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import BLOCK_NUMBER, Question, read_quantities, read_quantity

GAS_PRICE: Question[int] = Question("eth_gasPrice", (), read_quantity)
PRIORITY_FEE: Question[int] = Question("eth_maxPriorityFeePerGas", (), read_quantity)
BLOB_BASE_FEE: Question[int] = Question("eth_blobBaseFee", (), read_quantity)


_HISTORY = "eth_feeHistory"


@dataclass(frozen=True, slots=True)
class Price:
    """The price per gas. `how` records its source for the trace."""

    per_gas: int
    block: int
    node: str
    how: dict[str, Any]
    blob_base_fee: int | None = None
    base_fee: int | None = None  # of the next block; None: the chain has none, or it is not known

    @property
    def is_of_idle_blocks(self) -> bool:
        """Whether the tip is a suggestion, because the blocks had none."""
        return bool(self.how.get("priority_from", _HISTORY) != _HISTORY)

    @property
    def tip(self) -> int:
        return self.per_gas - (self.base_fee or 0)

    def with_tip(self, tip: int) -> "Price":
        if tip == self.tip:
            return self
        return replace(self, per_gas=(self.base_fee or 0) + tip, how=self.how | {"priority_fee": tip})


def tip_within(price: Price, floor: int | UnsetType, ceiling: int | UnsetType) -> Price:
    """The price with a tip inside the network's bounds; as it is, where there is no base fee to add a tip to."""
    if price.base_fee is None:
        return price
    tip = price.tip if floor is UNSET else max(price.tip, floor)
    return price.with_tip(tip if ceiling is UNSET else min(tip, ceiling))


@dataclass(frozen=True, slots=True)
class Block:
    number: int
    base_fee: int | None  # None: from before EIP-1559
    gas_limit: int


def read_block(answer: Any) -> Block:
    if not isinstance(answer, dict):
        raise UrlFailed("answered something other than a block")
    base = answer.get("baseFeePerGas")
    return Block(
        number=read_quantity(answer.get("number")),
        base_fee=None if base is None else read_quantity(base),
        gas_limit=read_quantity(answer.get("gasLimit")),
    )


LATEST_BLOCK: Question[Block] = Question("eth_getBlockByNumber", ("latest", False), read_block)


@dataclass(frozen=True, slots=True)
class History:
    """The answer of `eth_feeHistory`: one reward for each block that had transactions."""

    block: int
    next_base_fee: int
    rewards: tuple[int, ...]
    next_blob_base_fee: int | None


async def fee_market_price(batcher: Batcher, pool: NodePool, options: FeeOptions, *, was_idle: bool) -> Price:
    """The next block's base fee plus the median of the recent blocks' tips at the percentile.

    `was_idle`: the blocks had no tips the last time, so that the node is asked for its suggestion in the same request.
    """
    suggested: tuple[int, str] | None = None
    try:
        if was_idle:
            asked = batcher.ask(fee_history_question(options)), _suggested_priority(batcher)
            answer, suggested = await asyncio.gather(*asked)
        else:
            answer = await batcher.ask(fee_history_question(options))
    except NodeError as error:
        return await _suggested_price(batcher, pool, f"eth_feeHistory failed with error {error.code}")
    history = answer.value
    if history is None:
        return await _suggested_price(batcher, pool, "eth_feeHistory is empty or inconsistent")
    pool.seen_block(history.block)
    priority, source = upper_median(history.rewards) if history.rewards else 0, "eth_feeHistory"
    if not priority:  # of idle blocks: what they paid says nothing about what a transaction has to pay
        priority, source = suggested or await _suggested_priority(batcher)
    how = {
        "method": "eth_feeHistory",
        "base_fee": history.next_base_fee,
        "priority_fee": priority,
        "priority_from": source,
        "percentile": str(options.priority_percentile),
        "blocks_with_transactions": len(history.rewards),
    }
    base, blob_base = history.next_base_fee, history.next_blob_base_fee
    return Price(base + priority, history.block, answer.node, how, blob_base, base)


async def _suggested_price(batcher: Batcher, pool: NodePool, reason: str) -> Price:
    """The node's own suggestion, for nodes without a usable fee history."""
    answer, block = await asyncio.gather(batcher.ask(GAS_PRICE), batcher.ask(LATEST_BLOCK))
    number, base = block.value.number, block.value.base_fee
    pool.seen_block(number)
    how = {"method": GAS_PRICE.method, "reason": reason, "base_fee": base}
    return Price(max(answer.value, base or 0), number, answer.node, how, base_fee=base)


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


def fee_history_question(options: FeeOptions) -> Question[History | None]:
    percentile = options.priority_percentile
    wanted = int(percentile) if percentile == int(percentile) else percentile
    return Question("eth_feeHistory", (hex(options.history_blocks), "latest", (wanted,)), read_history)


def read_history(answer: Any) -> History | None:
    """None: it is of no use. Some nodes return no blocks, one base fee too few, or no base fees and tips."""
    if answer is None:
        return None
    if not isinstance(answer, dict):
        raise UrlFailed("answered something other than a fee history")
    base_fees, ratios = answer.get("baseFeePerGas"), answer.get("gasUsedRatio")
    if not base_fees or not isinstance(ratios, list) or not ratios:
        return None
    if isinstance(base_fees, list) and all(each is None for each in base_fees):
        return None
    base_fees = read_quantities(base_fees)
    if len(base_fees) != len(ratios) + 1:
        return None
    return History(
        block=read_quantity(answer.get("oldestBlock")) + len(ratios) - 1,
        next_base_fee=base_fees[-1],
        rewards=_rewards(answer.get("reward"), ratios),
        next_blob_base_fee=_blob_base_fee(answer.get("baseFeePerBlobGas")),
    )


def _rewards(rows: Any, ratios: list[Any]) -> tuple[int, ...]:
    if not rows:
        return ()
    if not isinstance(rows, list) or len(rows) != len(ratios):
        raise UrlFailed("answered an inconsistent fee history")
    found = []
    for row, ratio in zip(rows, ratios, strict=True):
        if not ratio or not row:  # the reward of an empty block is zero by convention
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
