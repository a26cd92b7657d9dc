"""The chains that the suite pays on: geth, anvil, anvil as an OP-stack chain, and Hardhat.

Each mines a block for each transaction, or one every `period` seconds.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from relaydeck.fees.models.op_stack import ORACLE
from tests.node.process import HARDHAT, running, running_anvil, running_geth
from tests.support.fee_chain import HARDHAT_KEY, Chain, compiled

L1_BLOCK = "0x4200000000000000000000000000000000000015"
L1_BASE_FEE, BLOB_BASE_FEE = 20 * 10**9, 10**9
BASE_FEE_SCALAR, BLOB_BASE_FEE_SCALAR = 1368, 810_949
OPERATOR_SCALAR, OPERATOR_CONSTANT = 500_000, 7 * 10**9


@contextmanager
def hardhat_chain(period: int = 0) -> Iterator[Chain]:
    with running(HARDHAT) as url, _chain(url) as chain:
        if period:
            chain.rpc("evm_setAutomine", False)
            chain.rpc("evm_setIntervalMining", period * 1000)
        yield chain


@contextmanager
def geth_chain(period: int = 0) -> Iterator[Chain]:
    with running_geth("--dev.period", str(period)) as url, _chain(url) as chain:
        yield chain


@contextmanager
def anvil_chain(period: int = 0, *arguments: str) -> Iterator[Chain]:
    with running_anvil(*arguments, *(("--block-time", str(period)) if period else ())) as url, _chain(url) as chain:
        yield chain


@contextmanager
def op_stack_chain(period: int = 0) -> Iterator[Chain]:
    """It charges by the values in its L1 block contract. The oracle at its predeploy address has the same values."""
    with anvil_chain(period, "--network", "optimism") as chain:
        chain.rpc("anvil_setBalance", "0x" + "00" * 20, hex(10**24))  # anvil charges calls without a sender, too
        scalars = BASE_FEE_SCALAR.to_bytes(4, "big") + BLOB_BASE_FEE_SCALAR.to_bytes(4, "big")
        operator = OPERATOR_SCALAR.to_bytes(4, "big") + OPERATOR_CONSTANT.to_bytes(8, "big")
        _place(chain, L1_BLOCK, b"\0", {
            1: L1_BASE_FEE.to_bytes(32, "big"),
            3: b"\0" * 16 + scalars + b"\0" * 8,
            7: BLOB_BASE_FEE.to_bytes(32, "big"),
            8: b"\0" * 20 + operator,
        })  # fmt: skip
        values = (L1_BASE_FEE, BLOB_BASE_FEE, BASE_FEE_SCALAR, BLOB_BASE_FEE_SCALAR, OPERATOR_SCALAR, OPERATOR_CONSTANT)
        storage = {slot: value.to_bytes(32, "big") for slot, value in enumerate(values)}
        _place(chain, ORACLE, compiled("op_oracle", "bytecode_runtime"), storage)
        yield chain


@contextmanager
def _chain(url: str) -> Iterator[Chain]:
    chain = Chain(url, HARDHAT_KEY)
    yield chain
    chain.close()


def _place(chain: Chain, address: str, code: bytes, storage: dict[int, bytes]) -> None:
    chain.rpc("anvil_setCode", address, "0x" + code.hex())
    for slot, word in storage.items():
        chain.rpc("anvil_setStorageAt", address, f"0x{slot:064x}", "0x" + word.hex())
