"""Estimates transactions, sends them, and compares the estimate with what the sender paid."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Decimal

import msgspec
import rlp

from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeOptions, Trace
from relaydeck.networks.model import FeeModelName, Network
from tests.proofs.paid.kinds import DEADLINES, LIMIT_DEPENDENT, SIGNED, Fields, Stage, at_random, blob, prepared
from tests.proofs.paid.nodes import anvil_chain, geth_chain, hardhat_chain, op_stack_chain
from tests.support.fee_chain import Chain
from tests.support.fee_scene import ask, network, relayer

BLOB, UNSIGNED = "token transfer with 1 blob", "token transfer, unsigned"


@dataclass(frozen=True, slots=True)
class Outcome:
    kind: str
    paid: int  # in Wei
    estimated: int | None  # None: no estimate
    method: str
    error: str = ""
    succeeded: bool = True

    @property
    def percent(self) -> Decimal:
        """Of what was paid: negative when the estimate is too low."""
        if self.estimated is None:
            return Decimal(-100)
        return Decimal(100) * (self.estimated - self.paid) / self.paid

    @property
    def is_close(self) -> bool:
        return abs(self.percent) <= 2


NODES: dict[str, tuple[Callable[[int], AbstractContextManager[Chain]], FeeModelName]] = {
    "geth": (geth_chain, "ethereum"),
    "anvil": (anvil_chain, "ethereum"),
    "OP stack": (op_stack_chain, "op_stack"),
    "Hardhat": (hardhat_chain, "ethereum"),
}
# Hardhat runs every call with a base fee of 0 and simulates nothing. The OP stack has no blobs.
NOT_ON = {"Hardhat": {"reads the base fee", *LIMIT_DEPENDENT}, "OP stack": {BLOB}}


class Suite:
    def __init__(self, chain: Chain, model: FeeModelName, node: str, seed: int = 1) -> None:
        self.stage: Stage = prepared(chain, seed)
        self.node = node
        self.chain = chain
        self.where: Network = msgspec.structs.replace(network(chain.url, chain_id=chain.chain_id), fee_model=model)
        self.estimator = Estimator(FeeOptions(cache_age=0.0))

    def kinds(self) -> list[str]:
        return [kind for kind in (*SIGNED, *LIMIT_DEPENDENT, BLOB, UNSIGNED) if kind not in NOT_ON.get(self.node, ())]

    async def kind(self, name: str) -> Outcome:
        if name == BLOB:
            return await self.compared(name, *blob(self.stage))
        if name == UNSIGNED:
            return await self.unsigned()
        return await self.sent(name, (SIGNED | LIMIT_DEPENDENT | DEADLINES)[name])

    async def random(self, number: int) -> Outcome:
        return await self.sent(f"random {number}", at_random)

    async def sent(self, name: str, build: Callable[[Stage], Fields]) -> Outcome:
        raw = self.chain.sign(build(self.stage))
        return await self.compared(name, raw, raw)

    def _settle(self) -> None:
        """anvil writes its fee history a moment after the block: until then it is that of the block before."""
        while self.chain.rpc("eth_feeHistory", "0x1", "latest", [])["oldestBlock"] != self.chain.rpc("eth_blockNumber"):
            time.sleep(0.005)

    async def compared(self, name: str, raw: str, to_send: str) -> Outcome:
        self._settle()
        estimated, method, error = await self.estimated(raw)
        before = self._balance()
        receipt = self.chain.send_raw(to_send)
        succeeded = int(receipt["status"], 16) == 1
        spent = before - self._balance() - (self._value(receipt) if succeeded else 0)
        return Outcome(name, spent, estimated, method, error, succeeded)

    async def estimated(self, raw: str) -> tuple[int | None, str, str]:
        trace = Trace()
        try:
            found = await ask(self.estimator, self.where, raw, who=relayer(), trace=trace)
        except RpcFailure as failure:
            return None, "", f"{failure.message}: {failure.description}"
        method = next(step["source"] for step in trace.steps if step["step"] == "gas")
        return int(Decimal(found.estimated_fee).scaleb(18)), method, ""

    async def unsigned(self) -> Outcome:
        """Priced by the network's fee data; then signed at exactly that price, and sent."""
        chain, stage = self.chain, self.stage
        self._settle()
        fields = SIGNED["token transfer"](stage)
        trace, who = Trace(), relayer(address=chain.account.address)
        encoded = _unsigned(chain, fields)
        found = await ask(self.estimator, self.where, encoded, who=who, trace=trace)
        price = int(next(step["used_per_gas_wei"] for step in trace.steps if step["step"] == "price"))
        base = int(next(step["base_fee"] for step in trace.steps if step["step"] == "price"))
        raw = chain.sign(fields | {"maxFeePerGas": price, "maxPriorityFeePerGas": price - base})
        before = self._balance()
        chain.send_raw(raw)
        estimated = int(Decimal(found.estimated_fee).scaleb(18))
        return Outcome(UNSIGNED, before - self._balance(), estimated, "eth_simulateV1")

    def _balance(self) -> int:
        return int(self.chain.rpc("eth_getBalance", self.chain.account.address, "latest"), 16)

    def _value(self, receipt: Fields) -> int:
        sent = self.chain.rpc("eth_getTransactionByHash", receipt["transactionHash"])
        own = sent["to"] is not None and sent["to"].lower() == self.chain.account.address.lower()
        return 0 if own else int(sent["value"], 16)


def _unsigned(chain: Chain, fields: Fields) -> str:
    data = bytes.fromhex(fields["data"][2:])
    items = [chain.chain_id, chain.nonce(), 1, 2, 300_000, bytes.fromhex(fields["to"][2:]), 0, data, []]
    encoded: bytes = rlp.encode(items)
    return "0x02" + encoded.hex()
