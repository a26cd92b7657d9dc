"""Prints the stored state as a file that `apply` takes, secrets as references to be filled in.

The order is that of creation, the keys are in a fixed order: the same state gives the same text.
"""

import hashlib
import re
from collections.abc import Generator, Iterator
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET

from relaydeck.errors import OperatorError
from relaydeck.networks import network_rows
from relaydeck.networks.model import CrossedRate, FeedRate, FeeToken, FixedRate, Network, Rate, RpcUrl
from relaydeck.provisioning.toml_text import written_key, written_table
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Policies, Relayer
from relaydeck.signers.shapes import SHAPES, secret_fields
from relaydeck.store.database import Row
from relaydeck.store.open_store import Store
from relaydeck.store.sealing import Damaged
from relaydeck.store.vault import Vault

_SIMPLE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_SPANS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
Content = dict[str, object]


def exported(store: Store) -> Generator[str, None, None]:
    """The file in pieces, all of one moment. Raises OperatorError for a record that does not open."""
    try:
        with store.database.snapshot():
            yield from _pieces(store)
    except Damaged as damage:
        raise OperatorError(f"{damage}", "See 'relaydeck doctor'. The export is not complete.") from None


def _pieces(store: Store) -> Iterator[str]:
    first = True
    for piece in _tables(store):
        yield piece if first else f"\n{piece}"
        first = False


def _tables(store: Store) -> Iterator[str]:
    for row in _rows(store, network_rows.COLUMNS, "networks"):
        yield from _network(network_rows.from_row(row, store.vault))
    for row in _rows(store, "id, type, open_config", "signers"):
        yield written_table("[[signers]]", _signer(row))
    for row in _rows(store, "id, type, url, sealed_signing_key IS NOT NULL", "notifications"):
        yield written_table("[[notifications]]", _notification(row))
    for row in _rows(store, relayer_rows.COLUMNS, "relayers"):
        yield _relayer(row, store.vault)


def _rows(store: Store, columns: str, table: str) -> Iterator[Row]:
    # Not fetched whole: there may be a million.
    yield from store.database.stream(f"SELECT {columns} FROM {table} ORDER BY seq")


def _network(network: Network) -> Iterator[str]:
    header = f"networks.{written_key(network.name)}"
    content: Content = {
        "network_type": network.network_type,
        "chain_id": network.chain_id,
        "native_symbol": network.native_symbol,
    }
    if network.rpc_urls:
        content["rpc_urls"] = _urls(network.rpc_urls, "networks", network.name)
    yield written_table(f"[{header}]", content)
    for token in network.fee_tokens:
        yield written_table(f"[{header}.fee_tokens.{written_key(token.symbol)}]", fee_token_content(token))


def fee_token_content(token: FeeToken) -> Content:
    content: Content = {"address": token.address, "decimals": token.decimals}
    if token.margin_percent:
        content["margin_percent"] = f"{token.margin_percent:f}"
    return content | {"rate": _rate(token.rate)}


def _rate(rate: Rate) -> Content:
    match rate:
        case FixedRate(fixed=fixed):
            return {"fixed": f"{fixed:f}"}
        case FeedRate(feed=feed, max_age=max_age, inverse=inverse):
            return {"feed": feed, "max_age": _span(max_age)} | ({"inverse": True} if inverse else {})
        case CrossedRate(native_usd=native, token_usd=token, max_age=max_age):
            return {"native_usd": native, "token_usd": token, "max_age": _span(max_age)}


def _span(seconds: int) -> str:
    return next(f"{seconds // length}{unit}" for unit, length in _SPANS if seconds % length == 0)


def _signer(row: Row) -> Content:
    """The sealed part is not opened: its fields are known from the type."""
    signer_id, signer_type, shown = row
    shape = SHAPES[signer_type]
    given = msgspec.json.decode(shown)
    given |= {name: {"env": variable("signers", signer_id, name)} for name in secret_fields(shape)}
    config = {name: given[name] for name in shape.__struct_fields__ if name in given}
    return {"id": signer_id, "type": signer_type, "config": config}


def _notification(row: Row) -> Content:
    notification_id, kind, url, has_key = row
    content: Content = {"id": notification_id, "type": kind, "url": url}
    if has_key:
        content["signing_key"] = {"env": variable("notifications", notification_id, "signing_key")}
    return content


def _relayer(row: Row, vault: Vault) -> str:
    relayer = relayer_rows.from_row(row, vault)
    names = ("id", "name", "network", "network_type", "address", "signer_id", "notification_id")
    content: Content = {name: value for name in names if (value := getattr(relayer, name)) is not UNSET}
    if relayer.custom_rpc_urls:
        content["custom_rpc_urls"] = _urls(relayer.custom_rpc_urls, "relayers", relayer.id)
    policies = _policies(relayer)
    return written_table("[[relayers]]", content) + (written_table("[relayers.policies]", policies) if policies else "")


def _policies(relayer: Relayer) -> Content:
    """Those that are not as usual."""
    usual = Policies()
    pairs = [(name, getattr(relayer.policies, name)) for name in Policies.__struct_fields__]
    return {name: value for name, value in pairs if value != getattr(usual, name)}


def _urls(urls: tuple[RpcUrl, ...], resource: str, record: str) -> list[Content]:
    return [
        {"url": _url(each.url, variable(resource, record, f"url_{number}")), "weight": each.weight}
        for number, each in enumerate(urls, 1)
    ]


def _url(url: str, name: str) -> str | Content:
    """Path, query and user part may hold a key; an address without them is shown."""
    parts = urlsplit(url)
    bare = parts.path in ("", "/") and not parts.query and not parts.fragment and "@" not in parts.netloc
    return url if bare and not url.endswith(("?", "#")) else {"env": name}


def variable(resource: str, record: str, field: str) -> str:
    """A name for the environment that depends on nothing else stored and that no two secrets share.

    A double underscore ends the record's part, which has none itself; where characters had to be
    replaced, a digest after three of them tells apart what would look alike.
    """
    name = re.sub(r"[^A-Z0-9]", "_", record.upper(), flags=re.ASCII)
    if not _SIMPLE.fullmatch(record):
        digest = hashlib.sha256(record.encode()).hexdigest()[:12].upper()
        name = f"{re.sub('_+', '_', name)[:40].strip('_')}___{digest}"
    return f"{resource[:-1].upper()}_{name}__{field.upper()}"
