"""ZKsync: the gas contains the data that the chain publishes, and tips are not charged."""

from collections.abc import Sequence
from typing import Any

from relaydeck.fees.gas import Gas
from relaydeck.fees.models.base import Charge, FeeModel
from relaydeck.networks.evm.errors import NodeError, UrlFailed
from relaydeck.networks.evm.questions import Question, read_gas
from relaydeck.networks.evm.transaction import Transaction


class ZkSync(FeeModel):
    name = "zksync"
    simulated = False
    pays_tip = False
    needs_answers = False

    def questions(self, transaction: Transaction, call: dict[str, Any]) -> Sequence[Question[Any]]:
        return (Question("zks_estimateFee", (call,), read_fee),)

    def charge(self, transaction: Transaction, gas: Gas, answers: Sequence[Any]) -> Charge:
        """The chain's own method where the node offers it; `eth_estimateGas` contains the same data."""
        if not gas.method:
            return Charge(gas.used, {}, {"gas_from": "the transaction's limit"})
        if isinstance(answers[0], NodeError):
            return Charge(gas.used, {}, {"gas_from": "eth_estimateGas"})
        return Charge(answers[0], {}, {"gas_from": "zks_estimateFee"})


def read_fee(answer: Any) -> int:
    if not isinstance(answer, dict):
        raise UrlFailed("answered something other than a fee")
    return read_gas(answer.get("gas_limit"))
