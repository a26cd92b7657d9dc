"""Chains that charge the gas limit of a transaction, however little of it is used."""

from collections.abc import Sequence
from typing import Any

from relaydeck.fees.gas import Gas
from relaydeck.fees.models.base import Charge, FeeModel
from relaydeck.networks.evm.transaction import Transaction


class GasLimitCharged(FeeModel):
    name = "gas_limit_charged"
    simulated = False  # of a transaction without a limit, the limit that it needs is charged

    def charge(self, transaction: Transaction, gas: Gas, answers: Sequence[Any]) -> Charge:
        """The limit of a signed transaction is final; one that is too low for an unsigned one will be raised."""
        limit = transaction.gas_limit
        charged = limit if transaction.is_signed else max(limit, gas.used)
        return Charge(charged, {}, {"gas_used_at_most": gas.used, "own_limit": charged == limit})
