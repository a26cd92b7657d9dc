"""A real node as the tests use it: contracts deployed, transactions sent, receipts read."""

import os
import time
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
from eth_abi.abi import encode
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from tests.support.accounts import account

CONTRACTS = Path(__file__).parent / "contracts"
# The first account every development node funds; its key is published in their manuals.
HARDHAT_KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
GANACHE_KEY = "0x4f3edf983ac636a65a842ce7c78d9aa706d3b113bce9c46f30d7d21715b23b1d"


class Chain:
    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.account = account(key)
        self._http = httpx.Client(timeout=60)
        self.chain_id = int(self.rpc("eth_chainId"), 16)

    def rpc(self, method: str, *params: Any) -> Any:
        reply = self.reply(method, *params)
        assert "error" not in reply, reply
        return reply["result"]

    def reply(self, method: str, *params: Any) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        found: dict[str, Any] = self._http.post(self.url, json=body).json()
        return found

    def deploy(self, name: str, *arguments: int) -> str:
        code = compiled(name) + encode(["uint8"] * len(arguments), arguments)
        receipt = self.send({"data": "0x" + code.hex(), "gas": 12_000_000})
        assert receipt["status"] == "0x1", receipt
        return str(receipt["contractAddress"])

    def call(self, to: str, signature: str, *arguments: Any) -> dict[str, Any]:
        """Sends it and waits for it."""
        return self.send({"to": to, "data": call_data(signature, *arguments), "gas": 500_000})

    def send(self, transaction: dict[str, Any]) -> dict[str, Any]:
        return self.send_raw(self.sign({"maxFeePerGas": 200 * 10**9, "maxPriorityFeePerGas": 10**9, **transaction}))

    def send_raw(self, raw: str) -> dict[str, Any]:
        return self.receipt(self.rpc("eth_sendRawTransaction", raw))

    def receipt(self, sent: str) -> dict[str, Any]:
        """Some nodes answer before the transaction is in a block, and geth before that block is its head."""
        for _ in range(2000):
            found = self.reply("eth_getTransactionReceipt", sent).get("result")  # an error while geth indexes
            if found and int(self.rpc("eth_blockNumber"), 16) >= int(found["blockNumber"], 16):
                return dict(found)
            time.sleep(0.005)
        raise AssertionError(f"no receipt of {sent}")

    def nonce(self) -> int:
        return int(self.rpc("eth_getTransactionCount", self.account.address, "latest"), 16)

    def sign(self, transaction: dict[str, Any], **blobs: Any) -> str:
        whole = {"chainId": self.chain_id, "nonce": self.nonce(), "value": 0, "gas": 300_000, **transaction}
        if "to" in whole:
            whole["to"] = to_checksum_address(whole["to"])
        return str(self.account.sign_transaction(whole, **blobs).raw_transaction.to_0x_hex())

    def pin_base_fee(self, wei: int) -> None:
        self.rpc("hardhat_setNextBlockBaseFeePerGas", hex(wei))

    def close(self) -> None:
        self._http.close()


def call_data(signature: str, *arguments: Any) -> str:
    types = [each for each in signature[signature.index("(") + 1 : -1].split(",") if each]
    return "0x" + (keccak(text=signature)[:4] + encode(types, arguments)).hex()


@cache
def compiled(name: str, form: str = "bytecode") -> bytes:
    """`form`: `bytecode_runtime` is the code as it is stored at an address.

    The code is kept for the other test processes and the next run: to compile a contract takes up to two seconds.
    """
    source = (CONTRACTS / f"{name}.vy").read_text()
    made_from = sha256(f"{version('vyper')} {form} {source}".encode()).hexdigest()
    kept = CONTRACTS / "__pycache__" / made_from
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        unfinished = kept.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(_compile(source, form))
        unfinished.replace(kept)  # another process finds all of it or nothing
    return kept.read_bytes()


def _compile(source: str, form: str) -> bytes:
    import vyper

    output: dict[str, str] = vyper.compile_code(source, output_formats=[form])
    return bytes.fromhex(output[form][2:])
