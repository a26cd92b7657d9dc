"""A worked example of each request and answer for the OpenAPI document. A test holds them to its schemas."""

from typing import Any

from relaydeck.signers.shapes import SHAPES

_CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {"key": "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"},
    "provider_a_kms": {"key_id": "alias/ops", "region": "eu-west-1"},
    "provider_b_kms": {"key": {"name": "ops"}, "service_account": {"client": "relaydeck"}},
    "provider_c": {
        "address": "https://secrets.example.com",
        "key_name": "ops",
        "role_id": "relaydeck",
        "secret_id": "s.example",
    },
    "provider_c_transit": {
        "address": "https://secrets.example.com",
        "key_name": "ops",
        "mount_point": "transit",
        "pubkey": "Ag4v6z4l",
        "role_id": "relaydeck",
        "secret_id": "s.example",
    },
    "provider_d": {
        "api_private_key": "example",
        "api_public_key": "03b1",
        "organization_id": "org-1",
        "private_key_id": "key-1",
        "public_key": "04f2",
    },
    "provider_e": {
        "account_address": "0x2c7536e3605d9c16a7a3d7b1898e529396a65c23",
        "api_key_id": "key-1",
        "api_key_secret": "example",
        "wallet_secret": "example",
    },
}


def signer_requests() -> dict[str, dict[str, Any]]:
    """A request for each type; the first is the one a reader is shown."""
    ordered = sorted(SHAPES, key=lambda kind: kind != "provider_c")
    return {kind: {"id": f"{kind}-1", "type": kind, "config": _CONFIGS[kind]} for kind in ordered}


_METADATA: dict[str, list[Any]] = {"logs": [], "traces": []}

_SIGNER = {
    "id": "provider_c-1",
    "type": "provider_c",
    "config": {"address": "https://secrets.example.com", "key_name": "ops"},
}

_RELAYER = {
    "id": "sepolia-1",
    "name": "Sepolia one",
    "network": "sepolia",
    "network_type": "evm",
    "address": "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23",
    "signer_id": "ops",
    "notification_id": "pager",
    "paused": False,
    "system_disabled": False,
    "custom_rpc_urls": [{"url": "https://node.example.com/rpc", "weight": 3}],
    "policies": {
        "eip1559_pricing": True,
        "gas_limit_estimation": True,
        "gas_price_cap": 100_000_000_000,
        "min_balance": 0,
        "private_transactions": False,
        "whitelist_receivers": [],
    },
}

_PAGINATION = {"current_page": 1, "per_page": 10, "total_items": 1}


def _envelope(data: Any, **more: Any) -> dict[str, Any]:
    return {"data": data, "error": "", "metadata": _METADATA, **more, "success": True}


SIGNER_CREATED = _envelope(_SIGNER)
SIGNERS_LISTED = _envelope([_SIGNER], pagination=_PAGINATION)
RELAYERS_LISTED = _envelope([_RELAYER], pagination=_PAGINATION)

NOTIFICATION_UPDATE = {"url": "https://hooks.example.com/relaydeck", "signing_key": "a new signing key"}
NOTIFICATION_UPDATED = _envelope(
    {"id": "pager", "type": "webhook", "url": "https://hooks.example.com/relaydeck", "has_signing_key": True}
)

_TRANSACTION = (
    "0x02f283aa36a7808459682f008504a817c80082520894d8da6bf26964af9d7eed9e03e53415d37aa9604587038d7ea4c6800080c0"
)
FEE_REQUEST = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "feeEstimate",
    "params": {"fee_token": "ETH", "network": "sepolia", "transaction": _TRANSACTION},
}
FEE_ANSWERS: dict[str, dict[str, Any]] = {
    "result": {
        "jsonrpc": "2.0",
        "id": "1",
        "result": {"conversion_rate": "1", "estimated_fee": "0.000042000000000021", "method": "feeEstimate"},
    },
    "error": {
        "jsonrpc": "2.0",
        "id": "1",
        "error": {
            "code": -32601,
            "message": "Method not found",
            "description": "feeEstimate is the only method.",
        },
    },
}

PATH_IDS = {"notification_id": "pager", "relayer_id": "sepolia-1"}


def failure(message: str) -> dict[str, Any]:
    return {"data": None, "message": message, "success": False}
