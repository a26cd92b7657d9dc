"""A stand-in for a node, just enough for estimates of transfers and for the monitor. It keeps no chain."""

import json
from typing import Any

from relaydeck.cli.demo.loopback import Handler

_GWEI = 10**9
_TRANSFER_GAS = 21_000
_GAS_OF_A_ZERO_BYTE, _GAS_OF_A_BYTE = 4, 16  # EIP-2028
_FIXED: dict[str, Any] = {
    "eth_chainId": hex(31337),
    "eth_blockNumber": hex(1),
    "eth_gasPrice": hex(2 * _GWEI),
    "eth_maxPriorityFeePerGas": hex(_GWEI),
    "eth_blobBaseFee": hex(1),
    "eth_getTransactionCount": hex(0),
    "eth_getBalance": hex(10_000 * 10**18),
    "eth_feeHistory": {
        "oldestBlock": hex(1),
        "baseFeePerGas": [hex(_GWEI), hex(_GWEI)],
        "gasUsedRatio": [0.5],
        "reward": [[hex(_GWEI)]],
    },
}


class MinimalNode(Handler):
    def respond(self, body: bytes) -> tuple[int, bytes]:
        try:
            asked = json.loads(body)
        except ValueError:
            return 400, b"{}"
        found = [_answer(each) for each in asked] if isinstance(asked, list) else _answer(asked)
        return 200, json.dumps(found).encode()


def _answer(asked: Any) -> dict[str, Any]:
    method, params = asked.get("method"), asked.get("params") or [{}]
    answer = {"jsonrpc": "2.0", "id": asked.get("id")}
    if method == "eth_estimateGas":
        return answer | {"result": hex(_gas(params[0]))}
    if method in _FIXED:
        return answer | {"result": _FIXED[method]}
    return answer | {"error": {"code": -32601, "message": "the minimal node of the demo has no such method"}}


def _gas(transaction: dict[str, str]) -> int:
    """What any transaction costs before it runs code; this node has no code to run."""
    data = bytes.fromhex((transaction.get("data") or transaction.get("input") or "0x").removeprefix("0x"))
    zeros = data.count(0)
    return _TRANSFER_GAS + zeros * _GAS_OF_A_ZERO_BYTE + (len(data) - zeros) * _GAS_OF_A_BYTE
