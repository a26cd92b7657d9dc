"""Mantle: an OP stack whose oracle computes the L1 data fee in ETH. The chain charges it in MNT, at its token ratio.

Since the Arsia upgrade (2026-04-22) the ratio applies to that fee only, no longer to the gas. Source: the release notes
of mantle-xyz/op-geth v1.5.3 and v1.5.4, and `NewL1CostFuncArsia` in its core/types/rollup_cost.go.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from relaydeck.fees.gas import Gas
from relaydeck.fees.models.base import Charge, contract_question, returned
from relaydeck.fees.models.op_stack import ORACLE, OpStack
from relaydeck.networks.evm.questions import Question
from relaydeck.networks.evm.transaction import Transaction

RATIO = "0x06f837d3"  # tokenRatio(): MNT for one ETH


class Mantle(OpStack):
    name = "mantle"

    def questions(self, transaction: Transaction, call: dict[str, Any]) -> Sequence[Question[Any]]:
        return (*super().questions(transaction, call), contract_question(ORACLE, RATIO))

    def charge(self, transaction: Transaction, gas: Gas, answers: Sequence[Any], margin: int = 0) -> Charge:
        *of_oracle, ratio = answers
        in_eth = super().charge(transaction, gas, of_oracle, margin)
        (factor,) = returned(ratio, 1, f"the token ratio at {ORACLE}")
        parts = in_eth.parts | {"l1_data_fee_wei": in_eth.parts["l1_data_fee_wei"] * factor}
        return replace(in_eth, parts=parts, facts=in_eth.facts | {"token_ratio": factor})
