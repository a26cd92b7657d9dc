"""Arbitrum: the gas contains the share for L1, and tips are not charged.

The node pads that share in an estimate: it counts 256 more units of data and then 1 % more, a price of L1 that is 10 %
higher, and a base fee that is an eighth lower, but not below the chain's minimum. The chain charges it without. Source:
OffchainLabs/nitro, `PosterDataCost` in arbos/l1pricing/l1pricing.go and `GetPosterGas` in arbos/tx_processor.go. What
the node assumes for the fields that it does not know (nonce, signature) stays.
"""

from collections.abc import Sequence
from typing import Any

from relaydeck.fees.exact import ceil_div
from relaydeck.fees.gas import Gas
from relaydeck.fees.models.base import Charge, FeeModel, answered, contract_question, returned
from relaydeck.networks.evm.errors import ErrorKind, NodeError, error_kind
from relaydeck.networks.evm.questions import Question
from relaydeck.networks.evm.transaction import Transaction

NODE_INTERFACE = "0x00000000000000000000000000000000000000C8"
GAS_ESTIMATE_COMPONENTS = "0xc94e6eeb"  # gasEstimateComponents(address,bool,bytes)
GAS_INFO = "0x000000000000000000000000000000000000006C"
GET_MINIMUM_GAS_PRICE = "0xf918379a"  # getMinimumGasPrice()
_PADDING_UNITS = 256
_UNITS_PER_BYTE = 16


class Arbitrum(FeeModel):
    name = "arbitrum"
    simulated = False
    pays_tip = False

    def questions(self, transaction: Transaction, call: dict[str, Any]) -> Sequence[Question[Any]]:
        to = int(transaction.to or "0x0", 16)
        question = contract_question(
            NODE_INTERFACE, GAS_ESTIMATE_COMPONENTS, to, int(transaction.to is None), transaction.data
        )
        asked = {**question.params[0], "from": call["from"], "value": call["value"]}
        components = Question(question.method, (asked, "latest"), question.read)
        return components, contract_question(GAS_INFO, GET_MINIMUM_GAS_PRICE)

    def charge(self, transaction: Transaction, gas: Gas, answers: Sequence[Any], margin: int = 0) -> Charge:
        components, least = answers
        if not gas.method:
            return Charge(gas.used, {}, {})
        if isinstance(components, NodeError) and error_kind(components) is ErrorKind.REFUSED:
            return Charge(gas.used, {}, {"estimate_confirmed": False})  # for example, the sender has no funds
        total, padded, base_fee, unit_price = returned(components, 4, f"the node interface at {NODE_INTERFACE}")
        found = answered(least, 1)
        for_l1 = padded if found is None else without_padding(padded, base_fee, unit_price, found[0])
        facts = {"gas_components": total, "estimate_confirmed": gas.used >= total}
        facts |= {"gas_for_l1": for_l1, "padding_of_node": padded - for_l1}
        return Charge(max(gas.used, total) - padded + for_l1, {}, facts)


def without_padding(padded: int, base_fee: int, unit_price: int, least_price: int) -> int:
    """The gas that the chain charges for the data. Data is whole bytes, so that what the node rounds is recovered."""
    if not (base_fee and unit_price):
        return padded
    cost = padded * max(base_fee * 7 // 8, least_price)
    units = ceil_div(cost * 10, 11 * unit_price) * 100 // 101 - _PADDING_UNITS
    data_bytes = max(0, (units + _UNITS_PER_BYTE // 2) // _UNITS_PER_BYTE)
    return min(padded, data_bytes * _UNITS_PER_BYTE * unit_price // base_fee)
