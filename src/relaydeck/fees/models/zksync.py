"""ZKsync: the gas contains the data that the chain publishes, and tips are not charged.

The node multiplies the gas of its estimates by a scale factor, except for the overhead of a transaction. No method
returns the factor: the network or its chain declares it (`gas_margin_percent`), and the estimate is without it. What
the chain refunds is not known before, so that the estimate contains it. Source: matter-labs/zksync-era,
`get_txs_fee_in_wei` in core/node/api_server/src/tx_sender/gas_estimation.rs.
"""

from collections.abc import Sequence
from typing import Any

from relaydeck.fees.exact import ceil_div
from relaydeck.fees.gas import Gas
from relaydeck.fees.models.base import Charge, FeeModel
from relaydeck.networks.evm.errors import NodeError, UrlFailed
from relaydeck.networks.evm.questions import Question, read_gas
from relaydeck.networks.evm.transaction import ZKSYNC_TYPE, Transaction

_OVERHEAD = 10_000  # gas, of a transaction of the usual size


class ZkSync(FeeModel):
    name = "zksync"
    simulated = False
    pays_tip = False
    needs_answers = False
    types = (*FeeModel.types, ZKSYNC_TYPE)

    def questions(self, transaction: Transaction, call: dict[str, Any]) -> Sequence[Question[Any]]:
        return (Question("zks_estimateFee", (call,), read_fee, exact=False),)

    def charge(self, transaction: Transaction, gas: Gas, answers: Sequence[Any], margin: int = 0) -> Charge:
        """The chain's own method where the node offers it; `eth_estimateGas` contains the same data."""
        if not gas.method:
            return Charge(gas.used, {}, {"gas_from": "the transaction's limit"})
        is_own = not isinstance(answers[0], NodeError)
        padded, source = (answers[0], "zks_estimateFee") if is_own else (gas.used, "eth_estimateGas")
        needed = min(padded, _OVERHEAD + ceil_div(max(0, padded - _OVERHEAD) * 100, 100 + margin))
        return Charge(needed, {}, {"gas_from": source, "margin_of_node": padded - needed})


def read_fee(answer: Any) -> int:
    if not isinstance(answer, dict):
        raise UrlFailed("answered something other than a fee")
    return read_gas(answer.get("gas_limit"))
