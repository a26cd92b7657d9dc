"""What a chain charges for a transaction. Each fee model overrides the rules that differ from those of Ethereum."""

from collections.abc import Sequence
from typing import Any

import msgspec

from relaydeck.fees.errors import InternalFailure
from relaydeck.fees.exact import ceil_div
from relaydeck.fees.gas import Gas
from relaydeck.networks.evm.errors import NodeError
from relaydeck.networks.evm.questions import Question, contract_call, read_bytes, words
from relaydeck.networks.evm.transaction import Transaction


class Charge(msgspec.Struct, frozen=True):
    """`gas` is charged at the price per gas; `parts` are further amounts in Wei, by name."""

    gas: int
    parts: dict[str, int]
    facts: dict[str, Any]  # for the trace
    tip: int | None = None  # that the chain asks of this transaction, per gas; None: as others pay
    rate: tuple[int, int] | None = None  # so many units of the fee currency for so many Wei; None: it pays in Wei

    @property
    def extra(self) -> int:
        return sum(self.parts.values())


class FeeModel:
    """The rules of Ethereum: the gas used, at the base fee plus the tip."""

    name = "ethereum"
    simulated = True  # whether a simulation reports the gas that the chain charges
    pays_tip = True
    types: tuple[int, ...] = (0, 1, 2, 3, 4)  # of transactions that the chain takes
    needs_answers = True  # whether the answers to `questions` are part of what is charged

    def questions(self, transaction: Transaction, call: dict[str, Any]) -> Sequence[Question[Any]]:
        """What the model has to know about this transaction; asked in the same request as the gas."""
        return ()

    def charge(self, transaction: Transaction, gas: Gas, answers: Sequence[Any], margin: int = 0) -> Charge:
        """`answers` are those to `questions`; one that the node refused is a `NodeError`.

        `margin`: percent that senders of the chain add to the gas limit, or its nodes to their estimates.
        """
        return Charge(gas.used, {}, {})


def contract_question(to: str, selector: str, *arguments: int | bytes) -> Question[Any]:
    """A call of a view function that takes integers and at most one byte string, which comes last."""
    return contract_call(to, selector + _encoded(arguments), read_bytes)


def _encoded(arguments: Sequence[int | bytes]) -> str:
    head, tail = "", ""
    for argument in arguments:
        if isinstance(argument, int):
            head += f"{argument:064x}"
            continue
        head += f"{32 * len(arguments):064x}"
        tail = f"{len(argument):064x}" + argument.hex() + "00" * (-len(argument) % 32)
    return head + tail


def answered(answer: Any, count: int) -> list[int] | None:
    """The integers that a contract returned; None: it reverted, or returned something else."""
    return None if isinstance(answer, NodeError) else words(answer, count)


def returned(answer: Any, count: int, contract: str) -> list[int]:
    """The same for a contract that the chain must have. Raises `InternalFailure`: the network has another model."""
    found = answered(answer, count)
    if found is None:
        raise InternalFailure(f"{contract} does not answer: fee_model of the network is probably wrong")
    return found


class GasLimitCharged(FeeModel):
    name = "gas_limit_charged"
    simulated = False  # of a transaction without a limit, the limit that it needs is charged

    def charge(self, transaction: Transaction, gas: Gas, answers: Sequence[Any], margin: int = 0) -> Charge:
        """The limit of a signed transaction is final; one that is too low for an unsigned one will be raised."""
        limit = transaction.gas_limit
        if transaction.is_signed or limit >= gas.used:
            return Charge(limit, {}, {"gas_used_at_most": gas.used, "own_limit": True})
        facts = {"gas_used_at_most": gas.used, "own_limit": False, "margin_percent": margin}
        return Charge(ceil_div(gas.used * (100 + margin), 100), {}, facts)
