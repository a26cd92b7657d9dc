"""What an answer claims about the chain, so that the pool can compare it with what it knows.

The figures are read from the answer itself, by method: a caller cannot forget to have an answer checked.
"""

from collections.abc import Callable
from typing import Any

import msgspec

_BASE_GAS = 21_000
_ZERO_BYTE_GAS, _OTHER_BYTE_GAS = 4, 16
COMPARED = frozenset({"eth_feeHistory", "eth_gasPrice", "eth_maxPriorityFeePerGas", "eth_blobBaseFee"})  # fee data


class Figures(msgspec.Struct, frozen=True):
    block: int | None = None  # as of which the node answers
    base_fee: int | None = None  # of the block after that
    price: int | None = None  # per gas
    price_from: str = ""  # the method: two methods may name two prices
    is_whole_price: bool = True  # not the tip alone
    blob_price: int | None = None  # per blob gas, of the block after that
    gas: int | None = None
    least_gas: int = 0  # that the call can use


def figures_of(method: str, params: Any, result: Any) -> Figures | None:
    """None when the method claims nothing, or the answer has another form: its reader refuses that."""
    read = _READERS.get(method)
    if read is None:
        return None
    try:
        return read(params, result)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError):
        return None


def _fee_history(_: Any, result: Any) -> Figures:
    ratios, base_fees = result["gasUsedRatio"], result["baseFeePerGas"]
    tips = [int(row[0], 16) for row, ratio in zip(result.get("reward") or (), ratios, strict=False) if ratio and row]
    base = int(base_fees[-1], 16)
    block = int(result["oldestBlock"], 16) + len(ratios) - 1
    tip = sorted(tips)[len(tips) // 2] if tips else 0
    blob_prices = result.get("baseFeePerBlobGas")
    blob_price = int(blob_prices[-1], 16) if blob_prices else None
    return Figures(block=block, base_fee=base, price=base + tip, price_from="eth_feeHistory", blob_price=blob_price)


def _gas_price(_: Any, result: Any) -> Figures:
    return Figures(price=int(result, 16), price_from="eth_gasPrice")


def _priority_fee(_: Any, result: Any) -> Figures:
    return Figures(price=int(result, 16), price_from="eth_maxPriorityFeePerGas", is_whole_price=False)


def _blob_base_fee(_: Any, result: Any) -> Figures:
    return Figures(price=int(result, 16), price_from="eth_blobBaseFee", is_whole_price=False)


def _block(params: Any, result: Any) -> Figures:
    return Figures(block=int(result["number"], 16) if params[0] == "latest" else None)


def _estimated_gas(params: Any, result: Any) -> Figures:
    return Figures(gas=int(result, 16), least_gas=intrinsic_gas(params[0]))


def _simulated_gas(params: Any, result: Any) -> Figures:
    (call,) = params[0]["blockStateCalls"][0]["calls"]
    (answer,) = result[-1]["calls"]  # before it there may be empty blocks, up to the number that was asked for
    return Figures(gas=int(answer["gasUsed"], 16), least_gas=intrinsic_gas(call))


def _charged_gas(_: Any, result: Any) -> Figures:
    return Figures(gas=int(result["gas_limit"], 16))


def intrinsic_gas(call: dict[str, Any]) -> int:
    """What every chain charges before the first instruction. What forks and creations add to it is left out."""
    data = bytes.fromhex((call.get("data") or call.get("input") or "0x")[2:])
    zeros = data.count(0)
    return _BASE_GAS + zeros * _ZERO_BYTE_GAS + (len(data) - zeros) * _OTHER_BYTE_GAS


_READERS: dict[str, Callable[[Any, Any], Figures]] = {
    "eth_feeHistory": _fee_history,
    "eth_gasPrice": _gas_price,
    "eth_maxPriorityFeePerGas": _priority_fee,
    "eth_blobBaseFee": _blob_base_fee,
    "eth_getBlockByNumber": _block,
    "eth_estimateGas": _estimated_gas,
    "eth_simulateV1": _simulated_gas,
    "zks_estimateFee": _charged_gas,
}
