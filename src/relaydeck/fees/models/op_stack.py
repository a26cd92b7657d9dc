"""OP stack: the data that the chain posts to L1 is charged per transaction, and some chains add an operator fee."""

from collections.abc import Sequence
from typing import Any

from relaydeck.fees.exact import ceil_div
from relaydeck.fees.gas import Gas
from relaydeck.fees.models.base import Charge, FeeModel, answered, contract_question, returned
from relaydeck.networks.evm.questions import Question
from relaydeck.networks.evm.transaction import Transaction

ORACLE = "0x420000000000000000000000000000000000000F"
GET_L1_FEE = "0x49948e0e"  # getL1Fee(bytes), of a transaction without its signature, which the oracle adds
GET_L1_FEE_UPPER_BOUND = "0xf1c7a58b"  # getL1FeeUpperBound(uint256), of the size of such a transaction
GET_OPERATOR_FEE = "0x275aedd2"  # getOperatorFee(uint256); from the Isthmus upgrade on
_FAR = 10**12  # the operator fee grows evenly with the gas: two of its values define it without a rounding error


class OpStack(FeeModel):
    name = "op_stack"

    def questions(self, transaction: Transaction, call: dict[str, Any]) -> Sequence[Question[Any]]:
        return (
            contract_question(ORACLE, GET_L1_FEE, transaction.unsigned),
            contract_question(ORACLE, GET_L1_FEE_UPPER_BOUND, len(transaction.unsigned)),
            contract_question(ORACLE, GET_OPERATOR_FEE, 0),
            contract_question(ORACLE, GET_OPERATOR_FEE, _FAR),
        )

    def charge(self, transaction: Transaction, gas: Gas, answers: Sequence[Any], margin: int = 0) -> Charge:
        fee, bound, *operator = answers
        source = "getL1Fee" if answered(fee, 1) else "getL1FeeUpperBound"
        (l1_fee,) = answered(fee, 1) or returned(bound, 1, f"the gas price oracle at {ORACLE}")
        parts = {"l1_data_fee_wei": l1_fee, "operator_fee_wei": operator_fee(gas.used, operator)}
        return Charge(gas.used, parts, {"l1_data_fee_from": source, "data_bytes": len(transaction.unsigned)})


def operator_fee(gas: int, answers: Sequence[Any]) -> int:
    """0 on a chain from before the operator fee: its oracle reverts."""
    constant, far = (answered(answer, 1) for answer in answers)
    if constant is None or far is None:
        return 0
    return constant[0] + ceil_div((far[0] - constant[0]) * gas, _FAR)
