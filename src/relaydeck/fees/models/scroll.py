"""Scroll: the data of the signed transaction is charged, at a price that an oracle of the chain computes."""

from collections.abc import Sequence
from typing import Any

from relaydeck.fees.gas import Gas
from relaydeck.fees.models.base import Charge, FeeModel, contract_question, returned
from relaydeck.networks.evm.questions import Question
from relaydeck.networks.evm.transaction import Transaction

ORACLE = "0x5300000000000000000000000000000000000002"
GET_L1_FEE = "0x49948e0e"  # getL1Fee(bytes), of the whole transaction
_SIGNATURE = b"\xff" * 67  # the parity and two numbers of 32 bytes, as RLP encodes them


class Scroll(FeeModel):
    name = "scroll"

    def questions(self, transaction: Transaction, call: dict[str, Any]) -> Sequence[Question[Any]]:
        return (contract_question(ORACLE, GET_L1_FEE, transaction.unsigned + _SIGNATURE),)

    def charge(self, transaction: Transaction, gas: Gas, answers: Sequence[Any]) -> Charge:
        (l1_fee,) = returned(answers[0], 1, f"the L1 gas price oracle at {ORACLE}")
        return Charge(gas.used, {"l1_data_fee_wei": l1_fee}, {"data_bytes": len(transaction.unsigned)})
