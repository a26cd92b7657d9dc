"""Arbitrum: the node's gas estimate contains the share for L1, and tips are not charged.

The chain's gas components confirm the estimate; where they are higher, they count.
"""

from collections.abc import Sequence
from typing import Any

from relaydeck.fees.gas import Gas
from relaydeck.fees.models.base import Charge, FeeModel, contract_question, returned
from relaydeck.networks.evm.errors import ErrorKind, NodeError, error_kind
from relaydeck.networks.evm.questions import Question
from relaydeck.networks.evm.transaction import Transaction

NODE_INTERFACE = "0x00000000000000000000000000000000000000C8"
GAS_ESTIMATE_COMPONENTS = "0xc94e6eeb"  # gasEstimateComponents(address,bool,bytes)


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
        return (Question(question.method, (asked, "latest"), question.read),)

    def charge(self, transaction: Transaction, gas: Gas, answers: Sequence[Any]) -> Charge:
        if isinstance(answers[0], NodeError) and error_kind(answers[0]) is ErrorKind.REFUSED:
            return Charge(gas.used, {}, {"estimate_confirmed": False})  # for example, the sender has no funds
        total, for_l1, *_ = returned(answers[0], 4, f"the node interface at {NODE_INTERFACE}")
        facts = {"gas_components": total, "gas_for_l1": for_l1, "estimate_confirmed": gas.used >= total}
        return Charge(max(gas.used, total) if gas.method else gas.used, {}, facts)
