"""Which fields differ, and what of them may be shown: of a URL its scheme and host, of a secret nothing."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET

from relaydeck.networks.model import FeeToken, Network, RpcUrl
from relaydeck.provisioning.plan import FieldChange
from relaydeck.relayers.model import Policies, Relayer
from relaydeck.web_addresses import shown_address

_UNSET = "unset"


def network_changes(before: Network, after: Network) -> tuple[FieldChange, ...]:
    changes = _plain_changes(before, after, ("network_type", "chain_id", "native_symbol"))
    changes += _url_changes("rpc_urls", before.rpc_urls, after.rpc_urls)
    changes += _token_changes(before.fee_tokens, after.fee_tokens)
    return tuple(changes)


def relayer_changes(before: Relayer, after: Relayer) -> tuple[FieldChange, ...]:
    """The state indicators are no part of a file and are left as they are."""
    names = ("name", "network", "network_type", "address", "signer_id", "notification_id")
    changes = _plain_changes(before, after, names)
    changes += _url_changes("custom_rpc_urls", before.custom_rpc_urls, after.custom_rpc_urls)
    changes += _plain_changes(before.policies, after.policies, Policies.__struct_fields__, "policies.")
    return tuple(changes)


def _plain_changes(before: Any, after: Any, names: Iterable[str], prefix: str = "") -> list[FieldChange]:
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in names]
    return [FieldChange(prefix + name, _shown(old), _shown(new)) for name, old, new in pairs if old != new]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return _UNSET if value is UNSET else str(value)


def _url_changes(name: str, before: tuple[RpcUrl, ...], after: tuple[RpcUrl, ...]) -> list[FieldChange]:
    if before == after:
        return []
    old, new = _shown_urls(before), _shown_urls(after)
    # The same hosts and weights: what differs is a part that may hold a key.
    return [FieldChange(name) if old == new else FieldChange(name, old, new)]


def _shown_urls(urls: tuple[RpcUrl, ...]) -> str:
    return f"[{', '.join(f'{url.shown} weight {url.weight}' for url in urls)}]"


def address_change(before: str, after: str) -> list[FieldChange]:
    """Of a webhook's address, too, the path may hold a key."""
    if before == after:
        return []
    old, new = shown_address(before), shown_address(after)
    return [FieldChange("url") if old == new else FieldChange("url", old, new)]


def _token_changes(before: tuple[FeeToken, ...], after: tuple[FeeToken, ...]) -> list[FieldChange]:
    old, new = ({token.symbol: token for token in tokens} for tokens in (before, after))
    if old == new and before != after:
        return [FieldChange("fee_tokens", f"[{', '.join(old)}]", f"[{', '.join(new)}]")]
    symbols = dict.fromkeys([*old, *new])
    pairs = [(symbol, old.get(symbol), new.get(symbol)) for symbol in symbols]
    return [
        FieldChange(f"fee_tokens.{symbol}", _shown_token(was), _shown_token(is_now))
        for symbol, was, is_now in pairs
        if was != is_now
    ]


def _shown_token(token: FeeToken | None) -> str:
    return _UNSET if token is None else msgspec.json.encode(token).decode()
