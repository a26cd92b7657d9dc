"""A scripted node with one block of transactions, for backtests."""

from typing import Any

from tests.support.fault_node import FaultNode

RECEIVER, SENDER = "0x" + "99" * 20, "0x" + "11" * 20
KEY = "0x" + "05" * 32
BLOCK = {"baseFeePerGas": "0x64"}
LEGACY = {
    "type": "0x0", "hash": "0xaa", "chainId": "0x7", "nonce": "0x2", "gas": "0xc350", "gasPrice": "0x96",
    "to": RECEIVER, "value": "0x3", "input": "0x", "from": SENDER,
}  # fmt: skip
MARKET = LEGACY | {
    "type": "0x2", "gasPrice": "0x78", "maxFeePerGas": "0x1f4", "maxPriorityFeePerGas": "0x14", "input": "0xabcd",
    "accessList": [{"address": RECEIVER, "storageKeys": [KEY]}],
}  # fmt: skip
RECEIPT = {"status": "0x1", "gasUsed": "0x5208", "effectiveGasPrice": "0x78"}


def simulated(used: int) -> list[dict[str, Any]]:
    return [{"number": "0x60", "calls": [{"gasUsed": hex(used), "status": "0x1", "returnData": "0x"}]}]


class Archive(FaultNode):
    """Serves one block of transactions, and records what it is asked beside."""

    def __init__(self, *sent: dict[str, Any]) -> None:
        super().__init__()
        self.sent = sent
        self.served: Any = {"number": "0x60", "transactions": list(sent), **BLOCK}
        self.receipt: Any = RECEIPT | {"effectiveGasPrice": "0x96"}
        self.asked: list[tuple[str, Any]] = []
        self.histories: dict[str, Any] = {}  # of fees, by block; else there is none

    def _result(self, mood: str, method: str, params: Any) -> Any:
        if method == "eth_getBlockByNumber" and params == ["0x60", True]:
            return self.served
        if method == "eth_feeHistory" and params[1] != "latest":
            return self.histories.get(params[1])
        if method == "eth_blockNumber":
            return "0x65"
        if method == "eth_getTransactionReceipt":
            return self.receipt if params == [self.sent[0]["hash"]] else RECEIPT | {"effectiveGasPrice": "0x96"}
        if method in ("eth_simulateV1", "eth_call", "eth_estimateGas", "zks_estimateFee"):
            self.asked.append((method, params))
        return super()._result(mood, method, params)
