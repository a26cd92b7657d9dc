"""The seven signer types: a whole request config of each, and what the interface answers for it."""

from typing import Any

KEY = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"

CONFIGS: dict[str, dict[str, Any]] = {
    "plain": {"key": KEY},
    "provider_a_kms": {"key_id": "alias/ops", "region": "eu-west-1"},
    "provider_c": {
        "address": "https://store.example.com:8200",
        "key_name": "ops",
        "mount_point": "kv",
        "namespace": "team",
        "role_id": "the role",
        "secret_id": "the secret",
    },
    "provider_c_transit": {
        "address": "https://store.example.com:8200",
        "key_name": "ops",
        "mount_point": "transit",
        "namespace": "team",
        "pubkey": "the public key",
        "role_id": "the role",
        "secret_id": "the secret",
    },
    "provider_d": {
        "api_private_key": "the private part",
        "api_public_key": "the public part",
        "organization_id": "the organization",
        "private_key_id": "the key",
        "public_key": "the public key",
    },
    "provider_e": {
        "account_address": "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23",
        "api_key_id": "the api key",
        "api_key_secret": "the api secret",
        "wallet_secret": "the wallet secret",
    },
    "provider_b_kms": {
        "key": {"location": "global", "version": 1},
        "service_account": {"client_email": "ops@example.com", "private_key": "the private key"},
    },
}
TYPES = list(CONFIGS)
OPTIONAL = {"mount_point", "namespace"}
SHOWN = ("address", "key_name", "mount_point", "namespace")

# Every field of every type, and those among them that a request must give.
FIELDS = [(kind, name) for kind, config in CONFIGS.items() for name in config]
REQUIRED = [(kind, name) for kind, name in FIELDS if name not in OPTIONAL]
LEFT_OUT = [(kind, name) for kind, name in FIELDS if name in OPTIONAL]


def request(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "config": CONFIGS[kind]} | more


def response_type(kind: str) -> str:
    return "local" if kind == "plain" else kind


def shown_config(kind: str) -> dict[str, Any]:
    return {name: CONFIGS[kind][name] for name in SHOWN if name in CONFIGS[kind]}


def success(data: Any, *logs: str) -> dict[str, Any]:
    """The envelope of a success that is no list."""
    entries = [{"level": "log", "message": message} for message in logs]
    return {"data": data, "error": "", "metadata": {"logs": entries, "traces": []}, "success": True}


def page(data: list[Any], number: int, per_page: int, total: int, *logs: str) -> dict[str, Any]:
    """The envelope of a list."""
    pagination = {"current_page": number, "per_page": per_page, "total_items": total}
    return success(data, *logs) | {"pagination": pagination}


def failure(message: str) -> dict[str, Any]:
    return {"data": None, "message": message, "success": False}


BAD_REQUEST = failure("Bad Request")
UNAUTHORIZED = failure("Unauthorized")
EXISTS = failure("Signer with this ID already exists")
NO_NOTIFICATION = failure("Notification not found")
TOO_MANY = failure("Too Many Requests")
SERVER_FAILURE = failure("Internal Server Error")
