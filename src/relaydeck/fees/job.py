"""One estimate under way: the transaction, and how the network's rules and the relayer's policies apply to it."""

from dataclasses import dataclass
from typing import Any

from relaydeck.fees.chain_cache import ChainCache
from relaydeck.fees.gas import Gas, Run
from relaydeck.fees.gas_price import Block, Price, tip_within
from relaydeck.fees.model import Trace
from relaydeck.fees.models import MODELS, FeeModel
from relaydeck.fees.signed_price import check_limit, check_nonce, own_price
from relaydeck.networks.evm.questions import Question, read_quantity
from relaydeck.networks.evm.transaction import Transaction
from relaydeck.networks.model import Network
from relaydeck.relayers.model import Relayer


@dataclass(slots=True)
class Job:
    cache: ChainCache
    relayer: Relayer
    network: Network
    transaction: Transaction
    trace: Trace | None
    model_questions: int = 0  # the last of the questions that are asked beside the gas

    @property
    def model(self) -> FeeModel:
        return MODELS[self.network.fee_model]

    def priced(self, price: Price) -> Price:
        """What this transaction pays per gas: a signed one by its own fields, any other by the network's data."""
        if self.transaction.is_signed:
            return own_price(self.transaction, price, self.model.pays_tip)
        if not self.model.pays_tip and price.base_fee is not None:
            return price.with_tip(0)
        return tip_within(price, self.network.tip_floor, self.network.tip_ceiling)

    @property
    def next_nonce(self) -> Question[int]:
        return Question("eth_getTransactionCount", (self.transaction.sender, "latest"), read_quantity)

    def run(self, price: Price) -> Run:
        transaction = self.transaction
        call = transaction.as_call(transaction.sender or self.relayer.address)
        questions = list(self.model.questions(transaction, call))
        self.model_questions = len(questions)
        if transaction.is_signed:
            questions.insert(0, self.next_nonce)
        return Run(
            call=call,
            prices=price_fields(transaction, price),
            base_fee=price.base_fee,
            block=price.block,
            own_limit=transaction.gas_limit,
            is_signed=transaction.is_signed,
            simulated=self.model.simulated,
            wants_limit=self.trace is not None,
            beside=questions,
            needs_beside=self.model.needs_answers,
        )

    def model_answers(self, gas: Gas) -> list[Any]:
        return gas.beside[len(gas.beside) - self.model_questions :]

    def check_sendable(self, gas: Gas, block: Block) -> None:
        """Raises `InvalidParams` for a signed transaction that no node takes."""
        need = gas.limit if gas.method == "eth_estimateGas" else None
        check_limit(self.transaction, need, block.gas_limit, self.network.gas_limit_cap)
        if isinstance(next_nonce := gas.beside[0], int):
            check_nonce(self.transaction, next_nonce)


def price_fields(transaction: Transaction, price: Price) -> dict[str, str]:
    """The fields with which the transaction runs at the price, whatever base fee the node assumes."""
    paid = hex(price.per_gas)
    if transaction.type < 2:
        return {"gasPrice": paid}
    fields = {"maxFeePerGas": paid, "maxPriorityFeePerGas": paid}
    if transaction.blob_hashes:
        fields["maxFeePerBlobGas"] = hex(max(transaction.max_fee_per_blob_gas or 0, price.blob_base_fee or 0))
    return fields
