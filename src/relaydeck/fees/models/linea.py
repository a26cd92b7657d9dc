"""Linea: each transaction pays a tip of its own, which covers its data on L1. The chain's own method computes it.

Source: https://docs.linea.build/network/how-to/gas-fees: total fee = gas used × (base fee + priority fee).
"""

from collections.abc import Sequence
from typing import Any

from relaydeck.fees.gas import Gas
from relaydeck.fees.models.base import Charge, FeeModel
from relaydeck.networks.evm.errors import NodeError, UrlFailed
from relaydeck.networks.evm.questions import Question, read_quantity
from relaydeck.networks.evm.transaction import Transaction


class Linea(FeeModel):
    name = "linea"

    def questions(self, transaction: Transaction, call: dict[str, Any]) -> Sequence[Question[Any]]:
        return (Question("linea_estimateGas", (call,), read_tip, exact=False),)

    def charge(self, transaction: Transaction, gas: Gas, answers: Sequence[Any], margin: int = 0) -> Charge:
        """A node without the method: the tip that others pay."""
        if isinstance(answers[0], NodeError):
            return Charge(gas.used, {}, {"tip_from": "the blocks"})
        return Charge(gas.used, {}, {"tip_from": "linea_estimateGas", "tip_wei": answers[0]}, tip=answers[0])


def read_tip(answer: Any) -> int:
    if not isinstance(answer, dict):
        raise UrlFailed("answered something other than an estimate")
    return read_quantity(answer.get("priorityFeePerGas"))
