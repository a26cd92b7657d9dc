"""Celo: the rules of Ethereum, without fees for L1. A CIP-64 transaction pays in a token, and more gas for that.

The token's gas and rate are those of the chain's fee currency directory. Sources: the chain's specifications of
transaction fees and of fee abstraction (https://docs.celo.org/specs/fee-abstraction), CIP-64, and for the direction of
the rate `ConvertCeloToCurrency` of celo-org/op-geth. The directory's address is that of Celo Mainnet
(https://docs.celo.org/contracts/core-contracts).
"""

from collections.abc import Sequence
from typing import Any

from relaydeck.fees.errors import InvalidParams
from relaydeck.fees.gas import Gas
from relaydeck.fees.models.base import Charge, FeeModel, answered, contract_question
from relaydeck.networks.evm.questions import Question
from relaydeck.networks.evm.transaction import FEE_CURRENCY_TYPE, Transaction

DIRECTORY = "0x15F344b9E6c3Cb6F0376A36A64928b13F62C6276"
GET_CURRENCY_CONFIG = "0xeab43d97"  # getCurrencyConfig(address): the oracle, and the gas that the token adds
GET_EXCHANGE_RATE = "0xefb7601d"  # getExchangeRate(address): units of the token, for units of CELO


class Celo(FeeModel):
    name = "celo"
    types = (*FeeModel.types, FEE_CURRENCY_TYPE)

    def questions(self, transaction: Transaction, call: dict[str, Any]) -> Sequence[Question[Any]]:
        if transaction.fee_currency is None:
            return ()
        currency = int(transaction.fee_currency, 16)
        return [contract_question(DIRECTORY, each, currency) for each in (GET_CURRENCY_CONFIG, GET_EXCHANGE_RATE)]

    def charge(self, transaction: Transaction, gas: Gas, answers: Sequence[Any], margin: int = 0) -> Charge:
        currency = transaction.fee_currency
        if currency is None:
            return Charge(gas.used, {}, {})
        config, rate = (answered(answer, 2) for answer in answers)
        if config is None or rate is None or not all(rate):
            raise InvalidParams(f"{currency} is not a fee currency of the chain")
        more = config[1] if gas.method else 0  # the transaction's own limit contains it
        facts = {"fee_currency": currency, "gas_for_currency": more, "currency_for_celo": f"{rate[0]}/{rate[1]}"}
        return Charge(gas.used + more, {}, facts, rate=(rate[0], rate[1]))
