"""Requests that the checks send: one whole config of each signer type, with secrets that can be looked for."""

import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from relaydeck.conformance.probe import OutOfBudget, Probe
from relaydeck.conformance.shapes import (
    Answer,
    Differs,
    Json,
    NotChecked,
    field,
    is_flag,
    is_text,
    many,
    objects,
    one,
    pagination,
    require_fields,
)

SIGNERS = "/api/v1/signers"
RELAYERS = "/api/v1/relayers"
TYPES = ("plain", "provider_a_kms", "provider_b_kms", "provider_c", "provider_c_transit", "provider_d", "provider_e")
# Every field that a config requires, with a value that a server which looks closer can take: only types are shown.
_STORE = {"address": "https://store.example.com", "key_name": "conform", "mount_point": "secret", "namespace": "team"}
_PUBLIC_KEY = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
_SHOWN: dict[str, dict[str, str]] = {
    "provider_a_kms": {"key_id": "alias/conform", "region": "eu-west-1"},
    "provider_c": _STORE,
    "provider_c_transit": _STORE | {"pubkey": _PUBLIC_KEY},
    "provider_d": {
        "api_public_key": _PUBLIC_KEY,
        "organization_id": "5d5a8d4e-6a2f-4c8e-9b3a-1f0e2d3c4b5a",
        "private_key_id": "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d",
        "public_key": _PUBLIC_KEY,
    },
    "provider_e": {"account_address": "0x" + "11" * 20, "api_key_id": "conform"},
}
# The contract calls them secret material by what they are; that a role_id is one is a ruling.
_SECRET_FIELDS = {
    "plain": ("key",),
    "provider_c": ("secret_id",),
    "provider_c_transit": ("secret_id",),
    "provider_d": ("api_private_key",),
    "provider_e": ("api_key_secret", "wallet_secret"),
}
WITH_SECRETS = tuple(_SECRET_FIELDS)
_WITH_ROLE = ("provider_c", "provider_c_transit")
_URL = "https://hooks.example.com/conform"
_MOST_PAGES = 20


# Signers


def config(kind: str) -> tuple[dict[str, Any], list[str]]:
    """A config and the secrets in it."""
    if kind == "provider_b_kms":
        return {"key": {"name": _secret()}, "service_account": {"private_key": _secret()}}, []
    names = _SECRET_FIELDS.get(kind, ())
    hidden = [_secret() for _ in names]
    role = {"role_id": _secret()} if kind in _WITH_ROLE else {}
    return dict(zip(names, hidden, strict=True)) | role | _SHOWN.get(kind, {}), hidden


def _secret() -> str:
    return secrets.token_hex(32)


def create(probe: Probe, kind: str, **more: Any) -> Answer:
    """Create a signer; its secrets are looked for in every later answer."""
    chosen, hidden = config(kind)
    probe.secrets += hidden
    return probe.write("POST", SIGNERS, {"type": kind, "config": chosen} | more)


def created(probe: Probe, kind: str) -> Answer:
    """The answer to the first create of this type; later calls send nothing."""
    if kind not in probe.kept:
        probe.kept[kind] = create(probe, kind, id=signer_id(probe, kind))
    return probe.kept[kind]


def created_without_id(probe: Probe) -> Answer:
    if "without id" not in probe.kept:
        probe.kept["without id"] = create(probe, "plain")
    return probe.kept["without id"]


def signer_id(probe: Probe, kind: str) -> str:
    return f"{probe.name}-{kind}"


# Lists


def page(probe: Probe, path: str, number: int, size: int) -> Answer:
    return probe.ask("GET", f"{path}?page={number}&per_page={size}")


def find(probe: Probe, path: str, wanted: str) -> Json | None:
    """The listed item with this id. Its place is open: the ends of a long list are looked at first."""
    for answer in _pages(probe, path):
        for each in many(answer, f"the list {path}"):
            if each.get("id") == wanted:
                return each
    return None


def _pages(probe: Probe, path: str) -> Iterator[Answer]:
    first = page(probe, path, 1, 100)
    yield first
    size, total = len(many(first, path)), pagination(first, path)["total_items"]
    last = -(-total // size) if size else 1
    rest = [last - each for each in range(5)] + list(range(2, _MOST_PAGES + 1))  # the total may be any number
    for number in list(dict.fromkeys(each for each in rest if 1 < each <= last))[: _MOST_PAGES - 1]:
        yield page(probe, path, number, 100)
    if last > _MOST_PAGES:
        raise NotChecked(f"not among {_MOST_PAGES} of {last} pages, and the order of a list is open")


def some_relayer(probe: Probe) -> Json:
    """The relayer that the caller chose, or the first that is listed. It has an id."""
    if probe.relayer is None:
        probe.relayer = _chosen_relayer(probe) if probe.target.relayer else _first_relayer(probe)
    return probe.relayer


def listed_relayer(probe: Probe) -> Json:
    """The same, as it is listed; raises NotChecked when the relayer that the caller chose is not."""
    if not _is_listed(probe):
        raise NotChecked(f"no relayer {probe.target.relayer} was found in the list", "--relayer ID")
    return some_relayer(probe)


def _is_listed(probe: Probe) -> bool:
    return some_relayer(probe) != {"id": probe.target.relayer}


def _chosen_relayer(probe: Probe) -> Json:
    with suppress(Differs, NotChecked):
        return find(probe, RELAYERS, probe.target.relayer) or {"id": probe.target.relayer}
    return {"id": probe.target.relayer}


def _first_relayer(probe: Probe) -> Json:
    for each in objects(field(probe.relayers.json, "data")):
        if isinstance(each.get("id"), str):
            return each
    raise NotChecked("the server lists no relayer with an id; it needs one")


# JSON-RPC calls


def rpc_path(relayer_id: str) -> str:
    return f"{RELAYERS}/{quote(relayer_id, safe='', errors='replace')}/rpc"


def rpc_call(method: Any = "conformNoSuchMethod", **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {}} | more


def estimate_call(probe: Probe, network: Any = "") -> dict[str, Any]:
    """A whole feeEstimate of the caller's transaction, or of one that any server can decode."""
    transaction = probe.target.transaction or (
        "0x02f283aa36a7808459682f008504a817c80082520894d8da6bf26964af9d7eed9e03e53415d37aa9604587038d7ea4c6800080c0"
    )
    token = probe.target.fee_token or "ETH"
    params = {"fee_token": token, "network": str(network or ""), "transaction": transaction}
    return rpc_call("feeEstimate", params=params)


def call(probe: Probe, body: Any, **more: Any) -> Answer:
    relayer = some_relayer(probe)
    answer = probe.ask("POST", rpc_path(relayer["id"]), body, **more)
    if answer.error == f"Relayer with ID {relayer['id']} not found" and not _is_listed(probe):
        raise NotChecked(f"there is no relayer {relayer['id']}", "--relayer ID")
    return answer


def fee_estimate(probe: Probe) -> Answer:
    if "feeEstimate" not in probe.kept:
        body = estimate_call(probe, some_relayer(probe).get("network"))
        probe.kept["feeEstimate"] = call(probe, body)
    return probe.kept["feeEstimate"]


def unknown_method(probe: Probe) -> Answer:
    if "unknown method" not in probe.kept:
        probe.kept["unknown method"] = call(probe, rpc_call())
    return probe.kept["unknown method"]


def is_rpc(answer: Answer) -> bool:
    """Whether the answer has the shape of a JSON-RPC response."""
    body = answer.json
    return isinstance(body, dict) and "jsonrpc" in body and "success" not in body


# The notification that the caller named


def notification_path(notification_id: str) -> str:
    return f"/api/v1/notifications/{quote(notification_id, safe='', errors='replace')}"


def scratch_url(ending: str) -> str:
    return f"{_URL}/{ending}"


def update(probe: Probe, body: Any, *, changes_key: bool = False) -> Answer:
    """Sends an update, after it was remembered what has to be put back.

    A signing key cannot be read, so one that is set is only changed with the caller's permission.
    """
    before = notification_before(probe)
    if changes_key and before["has_signing_key"] and not probe.target.replace_signing_key:
        raise NotChecked("the notification has a signing key: needs --replace-signing-key", "--replace-signing-key")
    probe.key_changed = probe.key_changed or changes_key
    return probe.write("PATCH", notification_path(probe.target.notification), body)


def notification_before(probe: Probe) -> Json:
    """The notification as an empty update answers it, before anything is changed."""
    missing = [] if probe.target.allow_writes else ["--allow-writes"]
    missing += [] if probe.target.notification else ["--notification ID"]
    if missing:
        raise NotChecked.without(*missing)
    if probe.notification is None:
        answer = probe.write("PATCH", notification_path(probe.target.notification), {})
        if answer.error == "Notification not found":
            raise NotChecked(f"there is no notification {probe.target.notification}", "--notification ID")
        fields = {"url": is_text, "has_signing_key": is_flag}
        probe.notification = require_fields(one(answer, "an empty update"), fields, "notification")
    return probe.notification


def _updated(probe: Probe, body: Json) -> Json:
    """Empty when it failed."""
    try:
        return one(probe.write("PATCH", notification_path(probe.target.notification), body), "an update")
    except (Differs, NotChecked, OutOfBudget):
        return {}


def put_back(probe: Probe) -> list[str]:
    """Gives the notification its url again, and a key only if it had one. Returns what could not be put back."""
    before, name = probe.notification, probe.target.notification
    if before is None:
        return []
    probe.put_back_time()
    had_key = before["has_signing_key"]
    key = {"signing_key": _secret() if had_key else ""} if probe.key_changed else {}
    found = _updated(probe, {"url": before["url"]} | key) or _updated(probe, {"url": before["url"]} | key)
    left = []
    if found.get("url") != before["url"]:
        left.append(f"notification {name}: set its url to {before['url']} again, which failed here")
    if found.get("has_signing_key") != had_key:
        left.append(f"notification {name}: {'set' if had_key else 'remove'} its signing key, which failed here")
    elif key and had_key:
        left.append(f"notification {name}: a random signing key replaced its own; set the key again")
    return left
