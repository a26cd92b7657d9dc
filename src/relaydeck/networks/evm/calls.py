"""A transaction as the object `eth_estimateGas` takes."""

from typing import Any

from relaydeck.networks.evm.transaction import Authorization, Transaction


def estimate_gas_call(transaction: Transaction, sender: str) -> dict[str, Any]:
    """Without nonce, gas limit and prices: the question is what it needs, not whether its sender can pay."""
    call: dict[str, Any] = {
        "from": sender,
        "to": transaction.to,
        "value": hex(transaction.value),
        "data": "0x" + transaction.data.hex(),
    }
    if transaction.to is None:
        del call["to"]
    if transaction.access_list:
        call["accessList"] = [{"address": address, "storageKeys": keys} for address, keys in transaction.access_list]
    if transaction.blob_hashes:
        call["blobVersionedHashes"] = transaction.blob_hashes
    if transaction.authorizations:
        call["authorizationList"] = [_authorization(entry) for entry in transaction.authorizations]
    return call


def _authorization(entry: Authorization) -> dict[str, str]:
    return {
        "chainId": hex(entry.chain_id),
        "address": entry.address,
        "nonce": hex(entry.nonce),
        "yParity": hex(entry.y_parity),
        "r": hex(entry.r),
        "s": hex(entry.s),
    }
