"""What a signed transaction pays, and whether it can be sent at all. Its signature fixes its price, limit and nonce."""

from dataclasses import replace

from msgspec import UNSET, UnsetType

from relaydeck.fees.errors import InvalidParams
from relaydeck.fees.gas_price import Price
from relaydeck.networks.evm.transaction import Transaction


def own_price(transaction: Transaction, price: Price, pays_tip: bool) -> Price:
    """The price that the transaction's own fields lead to in the next block. Raises `InvalidParams`."""
    base = price.base_fee or 0
    if transaction.gas_price is not None:
        name, most, paid = "gas price", transaction.gas_price, transaction.gas_price
    else:
        name, most = "max fee per gas", transaction.max_fee_per_gas or 0
        paid = min(most, base + (transaction.max_priority_fee_per_gas or 0))
    if most < base:
        raise not_sendable(f"its {name} of {most} Wei is below the next block's base fee of {base} Wei")
    return replace(price, per_gas=paid if pays_tip else base, how=price.how | {"paid_from": f"its own {name}"})


def check_limit(transaction: Transaction, need: int | None, block_limit: int, cap: int | UnsetType) -> None:
    limit, most = transaction.gas_limit, block_limit if cap is UNSET else min(cap, block_limit)
    if limit > most:
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
