"""The columns that `relaydeck network|signer|notification|relayer list` prints."""

from typing import Any

from relaydeck.cli.backend import Resource
from relaydeck.cli.output import Column


def _state(view: dict[str, Any]) -> str:
    states = [word for word, field in (("paused", "paused"), ("disabled", "system_disabled")) if view[field]]
    return ", ".join(states) or "active"


COLUMNS: dict[Resource, dict[str, Column]] = {
    "networks": {
        "name": lambda view: view["name"],
        "chain id": lambda view: view["chain_id"],
        "coin": lambda view: view["native_symbol"],
        "nodes": lambda view: len(view.get("rpc_urls", ())),
        "fee tokens": lambda view: ", ".join(view["fee_tokens"]),
    },
    "signers": {
        "id": lambda view: view["id"],
        "type": lambda view: view["type"],
        "check": lambda view: view["check"] and view["check"]["outcome"],
        "checked": lambda view: view["check"] and view["check"]["checked_at"],
        "created": lambda view: view["created_at"],
    },
    "notifications": {
        "id": lambda view: view["id"],
        "url": lambda view: view["url"],
        "signed": lambda view: "yes" if view["has_signing_key"] else "no",
    },
    "relayers": {
        "id": lambda view: view["id"],
        "name": lambda view: view["name"],
        "network": lambda view: view["network"],
        "state": _state,
        "address": lambda view: view["address"],
        "signer": lambda view: view["signer_id"],
    },
}
