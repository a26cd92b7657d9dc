"""From a row to what an administrator is shown. No secret is; RPC URLs are, as the list operation shows them."""

import hashlib
from typing import Any, NamedTuple

import msgspec

from relaydeck.networks import network_rows
from relaydeck.networks.model import RpcUrl
from relaydeck.provisioning.export import fee_token_content
from relaydeck.relayers import relayer_rows
from relaydeck.signers.shapes import response_type
from relaydeck.store.database import Row
from relaydeck.store.sealing import Damaged
from relaydeck.store.vault import Vault
from relaydeck.timestamps import utc

View = dict[str, Any]


class Item(NamedTuple):
    view: View
    etag: str = ""
    notes: tuple[str, ...] = ()


def etag_of(row: Row) -> str:
    """Covers the whole row, sealed parts and revision too: two changes may share a revision, but no content."""
    return f'"{hashlib.sha256(msgspec.json.encode(row)).hexdigest()[:32]}"'


def as_json_values(record: msgspec.Struct) -> View:
    """The record as JSON would show it: with lists where the record has tuples."""
    view: View = msgspec.json.decode(msgspec.json.encode(record))
    return view


def network_item(row: Row, vault: Vault) -> Item:
    notes: tuple[str, ...] = ()
    try:
        network = network_rows.from_row(row, vault)
    except Damaged as damage:
        network, notes = network_rows.without_urls(row), (f"{damage}",)
    view = {
        "name": network.name,
        "network_type": network.network_type,
        "chain_id": network.chain_id,
        "native_symbol": network.native_symbol,
        "rpc_urls": _urls(network.rpc_urls),
        "fee_tokens": {token.symbol: fee_token_content(token) for token in network.fee_tokens},
        "created_at": utc(row.created_at),
    }
    if notes:
        del view["rpc_urls"]
    return Item(view, etag_of(row), notes)


def signer_item(row: Row, _vault: Vault) -> Item:
    signer_id, signer_type, shown, created_at, _ = row
    config = msgspec.json.decode(shown)
    view = {"id": signer_id, "type": response_type(signer_type), "config": config, "created_at": utc(created_at)}
    return Item(view, etag_of(row))


def notification_item(row: Row, _vault: Vault) -> Item:
    notification_id, kind, url, sealed, created_at, _ = row
    view = {
        "id": notification_id,
        "type": kind,
        "url": url,
        "has_signing_key": sealed is not None,
        "created_at": utc(created_at),
    }
    return Item(view, etag_of(row))


def relayer_item(row: Row, vault: Vault) -> Item:
    notes: tuple[str, ...] = ()
    try:
        relayer = relayer_rows.from_row(row, vault)
    except Damaged as damage:
        relayer, notes = relayer_rows.without_urls(row), (f"{damage}",)
    view = as_json_values(relayer) | {"created_at": utc(row.created_at)}
    if notes:
        del view["custom_rpc_urls"]
    return Item(view, etag_of(row), notes)


def _urls(urls: tuple[RpcUrl, ...]) -> list[View]:
    return [{"url": each.url, "weight": each.weight} for each in urls]


def token_item(row: tuple[Any, ...], now: int) -> Item:
    name, kind, created_at, expires_at, revoked_at = row[:5]
    state = "live" if expires_at is None or expires_at > now else "expired"
    view = {
        "name": name,
        "kind": kind,
        "state": state if revoked_at is None else "revoked",
        "created_at": utc(created_at),
        "expires_at": utc(expires_at),
        "revoked_at": utc(revoked_at),
    }
    return Item(view)


def audit_item(row: Row, _vault: Vault) -> Item:
    seq, moment, actor, action, record, before, after, link = row
    view = {
        "sequence": seq,
        "at": utc(moment),
        "actor": actor,
        "action": action,
        "record": record,
        "before": before and msgspec.Raw(before.encode()),
        "after": after and msgspec.Raw(after.encode()),
        "hash": link.hex(),
    }
    return Item(view)
