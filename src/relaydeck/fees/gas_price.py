"""The price of gas in the next block, in Wei, and what a signed transaction pays: its signature fixes its price."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType, structs

from relaydeck.fees.errors import InvalidParams
from relaydeck.fees.exact import ceil_div
from relaydeck.fees.model import FeeOptions
from relaydeck.networks.chains import UNKNOWN, ChainFacts
from relaydeck.networks.evm.agreement import Subject, near
from relaydeck.networks.evm.calls import Said
from relaydeck.networks.evm.errors import NodeError, UrlFailed
from relaydeck.networks.evm.header import Header, base_fee_after, next_base_fee, next_blob_base_fee
from relaydeck.networks.evm.pool import NodePool, Reading
from relaydeck.networks.evm.questions import Question, read_quantities, read_quantity
from relaydeck.networks.evm.transaction import Transaction

Number = TypeVar("Number", int, Decimal)
GAS_PRICE: Question[int] = Question("eth_gasPrice", (), read_quantity)
PRIORITY_FEE: Question[int] = Question("eth_maxPriorityFeePerGas", (), read_quantity)
BLOB_BASE_FEE: Question[int] = Question("eth_blobBaseFee", (), read_quantity)
_HISTORY = "eth_feeHistory"
_UNKNOWN_METHOD = -32601
_READINGS = 2  # of a block and its history, until both are of the same block
_TIP: Subject[int] = Subject("the tip", near, int)
_PRICE: Subject[int] = Subject("the price of gas", near, int)
_BASE_FEE: Subject[int] = Subject("the next base fee")
_BLOB_FEE: Subject[int] = Subject("the next blob base fee")
_COMPUTED = "the chain's rule, from the newest block"
_ANSWERED = "the nodes"


@dataclass(frozen=True, slots=True)
class Price:
    """The price per gas. `how` records its source for the trace."""

    per_gas: int
    block: int
    node: str
    how: dict[str, Any]
    blob_base_fee: int | None = None
    base_fee: int | None = None  # of the next block; None: the chain has none, or it is not known
    time: int | None = None  # of the next block; None: not known
    gas_limit: int | None = None  # of a block; None: not known
    head: Header | None = None
    facts: ChainFacts = UNKNOWN

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

    def after(self, full: int) -> "Price | None":
        """The price if so many full blocks come before the next one. None: no rule says what it is."""
        if self.head is None or self.base_fee is None:
            return None
        base = base_fee_after(self.head, self.facts, full)
        return None if base is None else self.at(base, next_blob_base_fee(self.head, self.facts, full))

    def at(self, base_fee: int, blob_base_fee: int | None) -> "Price":
        return replace(self, per_gas=base_fee + self.tip, base_fee=base_fee, blob_base_fee=blob_base_fee)


def tip_within(price: Price, floor: int | UnsetType, ceiling: int | UnsetType) -> Price:
    """The price with a tip inside the network's bounds; as it is, where there is no base fee to add a tip to."""
    if price.base_fee is None or (floor is UNSET and ceiling is UNSET):
        return price
    tip = price.tip if floor is UNSET else max(price.tip, floor)
    return price.with_tip(tip if ceiling is UNSET else min(tip, ceiling))


@dataclass(frozen=True, slots=True)
class History:
    """The answer of `eth_feeHistory`: one reward for each block that had transactions."""

    block: int
    next_base_fee: int
    rewards: tuple[int, ...]
    next_blob_base_fee: int | None

    @property
    def tip(self) -> int:
        return upper_median(self.rewards) if self.rewards else 0


async def fee_market_price(pool: NodePool, options: FeeOptions, now: float, *, was_idle: bool) -> Price:
    """The next block's base fee plus the median of the recent blocks' tips at the percentile.

    `was_idle`: the blocks had no tips the last time, so that nodes are asked for their suggestions in the same request.
    """
    suggested = [PRIORITY_FEE] if was_idle else []
    for _ in range(_READINGS):
        reading = await pool.read(lambda block: [fee_history_question(options, block), *suggested])
        answers = _said(reading, 0)
        histories = [each for each in answers if each.value.block == reading.head.number]
        if len(histories) >= min(len(answers), pool.least):
            break  # else a block arrived between the answers of one request
    histories = histories or answers
    if len(histories) < pool.least:
        return await _suggested_price(pool, now, "eth_feeHistory is not available, empty or inconsistent")
    base, base_from = _next_base_fee(pool, reading.head, histories, now)
    tips = pool.settle([Said(node, found.tip) for node, found in histories], _TIP)
    chosen = next(found for node, found in histories if node is tips.chosen.node)
    priority, source = tips.chosen.value, _HISTORY
    if not priority:  # of idle blocks: what they paid says nothing about what a transaction has to pay
        priority, source = await _suggested_priority(pool, reading if was_idle else None)
    how = {
        "method": _HISTORY,
        "base_fee": base,
        "base_fee_from": base_from,
        "priority_fee": priority,
        "priority_from": source,
        "percentile": str(options.priority_percentile),
        "blocks_with_transactions": len(chosen.rewards),
        **_block_facts(pool, reading.head),
    }
    blob_base = _next_blob_base_fee(pool, reading.head, histories)
    return _price(pool, reading.head, now, base + priority, tips.nodes, how, blob_base, base)


def _said(reading: Reading, place: int) -> list[Said]:
    """The usable answers to one of the questions."""
    answers = [Said(node, values[place]) for node, values in reading.said if not isinstance(values, NodeError)]
    return [each for each in answers if each.value is not None and not isinstance(each.value, NodeError)]


def _next_base_fee(pool: NodePool, head: Header, histories: Sequence[Said], now: float) -> tuple[int, str]:
    computed = _computed_base_fee(pool, head, now)
    if computed is not None:
        return computed, _COMPUTED
    answers = [Said(node, found.next_base_fee) for node, found in histories]
    return pool.settle(answers, _BASE_FEE).chosen.value, _ANSWERED


def _computed_base_fee(pool: NodePool, head: Header, now: float) -> int | None:
    time = next_block_time(head, pool.facts, now)
    until = 0 if time is None else max(0, 1000 * time - (head.milliseconds or 0))
    return next_base_fee(head, pool.facts, until)


def _next_blob_base_fee(pool: NodePool, head: Header, histories: Sequence[Said]) -> int | None:
    computed = next_blob_base_fee(head, pool.facts)
    if computed is not None:
        return computed
    answers = [Said(node, found.next_blob_base_fee) for node, found in histories]
    known = [each for each in answers if each.value is not None]
    return pool.settle(known, _BLOB_FEE).chosen.value if len(known) >= pool.least else None


def _price(
    pool: NodePool,
    head: Header,
    now: float,
    per_gas: int,
    node: str,
    how: dict[str, Any],
    blob_base_fee: int | None = None,
    base_fee: int | None = None,
) -> Price:
    time = next_block_time(head, pool.facts, now)
    return Price(per_gas, head.number, node, how, blob_base_fee, base_fee, time, head.gas_limit, head, pool.facts)


def next_block_time(head: Header, facts: ChainFacts, now: float) -> int | None:
    """The newest block's time plus the block time of the chain; if that is not known, the present."""
    if head.timestamp is None:
        return None
    if facts.block_seconds is None:
        return max(head.timestamp + 1, int(now))
    return head.timestamp + max(1, int(facts.block_seconds))


def _block_facts(pool: NodePool, head: Header) -> dict[str, Any]:
    """What the steps say about the newest block, and what nothing verifies."""
    facts: dict[str, Any] = {"block_hash": head.hash, "block_hash_fits": head.is_genuine, "quorum": pool.quorum}
    if len(pool.nodes) == 1:
        facts["not_verified"] = "there is one node: nothing confirms its newest block, gas, tips and rates"
    elif pool.quorum == 1:
        facts["not_verified"] = "quorum is 1: nothing confirms the gas and rates that one node answers"
    if pool.facts.stale_seconds is None:
        facts["age_not_verified"] = "the block time of the chain is not known"
    return facts


async def _suggested_price(pool: NodePool, now: float, reason: str) -> Price:
    """The nodes' own suggestion, for nodes without a usable fee history."""
    found = await legacy_price(pool, now)
    assert found.head is not None
    base = _computed_base_fee(pool, found.head, now)
    least = found.head.base_fee if base is None else base
    how = found.how | {"reason": reason, "base_fee": least}
    return replace(found, per_gas=max(found.per_gas, least or 0), how=how, base_fee=least)


async def _suggested_priority(pool: NodePool, reading: Reading | None) -> tuple[int, str]:
    """The nodes' own suggestion, for when blocks are empty or the nodes return no rewards."""
    found = _said(await pool.read(lambda _: [PRIORITY_FEE]), 0) if reading is None else _said(reading, 1)
    if len(found) < pool.least:
        return 0, "no transaction in any block, and no suggestion from the nodes"
    return pool.settle(found, _TIP).chosen.value, PRIORITY_FEE.method


async def legacy_price(pool: NodePool, now: float) -> Price:
    """Raises the error of a node when none suggests a price."""
    reading = await pool.read(lambda _: [GAS_PRICE])
    if not (found := _said(reading, 0)):
        refusals = (values[0] for _, values in reading.said if isinstance(values, list))
        raise next(refusals, NodeError(_UNKNOWN_METHOD, ""))
    price = pool.settle(found, _PRICE)
    how = {"method": GAS_PRICE.method, **_block_facts(pool, reading.head)}
    return _price(pool, reading.head, now, price.chosen.value, price.nodes, how)


def upper_median(found: Sequence[Number]) -> Number:
    """Of an even number, the higher of the two in the middle: an estimate is rather too high than too low."""
    return sorted(found)[len(found) // 2]


def fee_history_question(options: FeeOptions, block: str) -> Question[History | None]:
    percentile = options.priority_percentile
    wanted = int(percentile) if percentile == int(percentile) else percentile
    return Question(_HISTORY, (hex(options.history_blocks), block, (wanted,)), read_history)


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


def own_price(transaction: Transaction, price: Price, pays_tip: bool) -> Price:
    """The price that the transaction's own fields lead to."""
    base, (name, most) = price.base_fee or 0, greatest_price(transaction)
    tip = most if transaction.gas_price is not None else transaction.max_priority_fee_per_gas or 0
    paid = min(most, base + tip if pays_tip else base)
    return replace(price, per_gas=paid, how=price.how | {"paid_from": f"its own {name}"})


def greatest_price(transaction: Transaction) -> tuple[str, int]:
    """The most that a signed transaction pays per gas, and the name of the field."""
    if transaction.gas_price is not None:
        return "gas price", transaction.gas_price
    return "max fee per gas", transaction.max_fee_per_gas or 0


def is_mined_at(transaction: Transaction, price: Price) -> bool:
    """Whether the limits of a signed transaction allow the price."""
    if greatest_price(transaction)[1] < (price.base_fee or 0):
        return False
    return not transaction.blob_gas or (transaction.max_fee_per_blob_gas or 0) >= (price.blob_base_fee or 0)


def check_price(transaction: Transaction, base_fee: int) -> None:
    name, most = greatest_price(transaction)
    if most < base_fee:
        raise not_sendable(f"its {name} of {most} Wei is below the next block's base fee of {base_fee} Wei")


# -- How the price changes in later blocks --

_RECENT = 100  # blocks, from which the typical change is taken


def base_fees_question(block: int) -> Question[list[int]]:
    return Question(_HISTORY, (hex(_RECENT), hex(block), ()), _read_base_fees)


def _read_base_fees(answer: Any) -> list[int]:
    return read_quantities(answer.get("baseFeePerGas") or []) if isinstance(answer, dict) else []


def typical_base_fee(base: int, recent: Sequence[int], blocks: int) -> int | None:
    """After so many blocks, if it changes by the median of what recent blocks did. None: there are too few."""
    found = [ceil_div(base * later, now) for now, later in zip(recent, recent[blocks:], strict=False) if now]
    return upper_median(found) if found else None


def in_wei(transaction: Transaction, rate: tuple[int, int]) -> Transaction:
    """With the prices of a transaction that pays in another currency, at its rate (units of it, Wei)."""
    units, wei = rate
    tip, most = transaction.max_priority_fee_per_gas or 0, transaction.max_fee_per_gas or 0
    return structs.replace(
        transaction, max_priority_fee_per_gas=tip * wei // units, max_fee_per_gas=most * wei // units
    )


def check_limit(transaction: Transaction, need: int | None, most: int | None) -> None:
    limit = transaction.gas_limit
    if most is not None and limit > most:
        raise not_sendable(f"its gas limit of {limit} is above the network's limit of {most}")
    if need is not None and need > limit:
        raise not_sendable(f"its gas limit of {limit} is below the {need} gas that it needs")


def check_nonce(transaction: Transaction, next_nonce: int) -> None:
    if transaction.nonce < next_nonce:
        raise not_sendable(
            f"its nonce {transaction.nonce} is already used; the next nonce of its sender is {next_nonce}"
        )


def check_blob_price(transaction: Transaction, blob_base_fee: int) -> None:
    most = transaction.max_fee_per_blob_gas or 0
    if most < blob_base_fee:
        raise not_sendable(f"its max fee per blob gas of {most} Wei is below the blob base fee of {blob_base_fee} Wei")


def not_sendable(reason: str) -> InvalidParams:
    return InvalidParams(f"the transaction cannot be sent: {reason}")
