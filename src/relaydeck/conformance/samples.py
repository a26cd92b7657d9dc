"""Requests that the checks send: one whole config of each signer type, with secrets that can be looked for."""

import secrets
from typing import Any
from urllib.parse import quote

from relaydeck.conformance.probe import Answer, Probe

SIGNERS = "/api/v1/signers"
RELAYERS = "/api/v1/relayers"
TYPES = ("plain", "provider_a_kms", "provider_b_kms", "provider_c", "provider_c_transit", "provider_d", "provider_e")
_SECRET_FIELDS = {
    "plain": ("key",),
    "provider_c": ("role_id", "secret_id"),
    "provider_c_transit": ("role_id", "secret_id"),
    "provider_d": ("api_private_key",),
    "provider_e": ("api_key_secret", "wallet_secret"),
}
_STORE = {"address": "https://store.example.com", "key_name": "k", "mount_point": "m", "namespace": "n"}
_SHOWN: dict[str, dict[str, str]] = {
    "provider_a_kms": {"key_id": "alias/k", "region": "eu-west-1"},
    "provider_c": _STORE,
    "provider_c_transit": _STORE | {"pubkey": "p"},
    "provider_d": {"api_public_key": "a", "organization_id": "o", "private_key_id": "i", "public_key": "p"},
    "provider_e": {"account_address": "0x" + "11" * 20, "api_key_id": "i"},
}


def config(kind: str) -> tuple[dict[str, Any], list[str]]:
    """A config and the secrets in it."""
    if kind == "provider_b_kms":
        hidden = [_secret(), _secret()]
        return {"key": {"name": hidden[0]}, "service_account": {"private_key": hidden[1]}}, hidden
    hidden = [_secret() for _ in _SECRET_FIELDS.get(kind, ())]
    return dict(zip(_SECRET_FIELDS.get(kind, ()), hidden, strict=True)) | _SHOWN.get(kind, {}), hidden


def _secret() -> str:
    return secrets.token_hex(32)


def create(probe: Probe, kind: str, **more: Any) -> Answer:
    """Create a signer; its secrets are looked for in every later answer."""
    chosen, hidden = config(kind)
    answer = probe.write("POST", SIGNERS, {"type": kind, "config": chosen} | more)
    probe.secrets += hidden
    return answer


def created(probe: Probe, kind: str) -> Answer:
    """The answer to the first create of this type; later calls send nothing."""
    if kind not in probe.kept:
        probe.kept[kind] = create(probe, kind, id=signer_id(probe, kind))
    return probe.kept[kind]


def signer_id(probe: Probe, kind: str) -> str:
    return f"{probe.name}-{kind}"


def rpc_path(relayer_id: str) -> str:
    return f"{RELAYERS}/{quote(relayer_id, safe='')}/rpc"


def notification_path(notification_id: str) -> str:
    return f"/api/v1/notifications/{quote(notification_id, safe='')}"


def rpc_call(method: Any = "conformNoSuchMethod", **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {}} | more


def fee_estimate(probe: Probe) -> Answer:
    """The estimate of the caller's transaction, or of one that any server can decode."""
    transaction = probe.target.transaction or (
        "0x02f283aa36a7808459682f008504a817c80082520894d8da6bf26964af9d7eed9e03e53415d37aa9604587038d7ea4c6800080c0"
    )
    relayer = probe.relayer
    params = {
        "fee_token": probe.target.fee_token or "ETH",
        "network": str(relayer.get("network", "")),
        "transaction": transaction,
    }
    if "feeEstimate" not in probe.kept:
        probe.kept["feeEstimate"] = probe.ask("POST", rpc_path(relayer["id"]), rpc_call("feeEstimate", params=params))
    return probe.kept["feeEstimate"]


def unknown_method(probe: Probe) -> Answer:
    if "unknown method" not in probe.kept:
        probe.kept["unknown method"] = probe.ask("POST", rpc_path(probe.relayer["id"]), rpc_call())
    return probe.kept["unknown method"]
