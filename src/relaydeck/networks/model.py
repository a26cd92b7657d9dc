"""What a network is: where its nodes are, what its coin is called, which tokens may pay a fee."""

from decimal import Decimal

import msgspec

from relaydeck.web_addresses import shown_address


class RpcUrl(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node's address and its share of the calls. Path, query and user part may hold a key."""

    url: str
    weight: int = 1

    @property
    def shown(self) -> str:
        """Scheme and host only: the part that may appear in logs, errors and events."""
        return shown_address(self.url)

    def __repr__(self) -> str:
        return f"RpcUrl({self.shown!r}, weight={self.weight})"

    __str__ = __repr__


class FixedRate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="source", tag="fixed"):
    """Fee tokens for one native coin, set by the operator."""

    fixed: Decimal


class FeedRate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="source", tag="feed"):
    """An on-chain aggregator that answers fee tokens for one native coin (`inverse`: the other way round)."""

    feed: str
    max_age: int  # seconds
    inverse: bool = False


class CrossedRate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="source", tag="crossed"):
    """Two on-chain aggregators, native/USD and token/USD, crossed."""

    native_usd: str
    token_usd: str
    max_age: int  # seconds


Rate = FixedRate | FeedRate | CrossedRate


class FeeToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token that may pay a fee, and where its price in native coin comes from."""

    symbol: str
    address: str
    decimals: int
    rate: Rate
    margin_percent: Decimal = Decimal(0)


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    network_type: str
    chain_id: int
    native_symbol: str
    rpc_urls: tuple[RpcUrl, ...] = ()
    fee_tokens: tuple[FeeToken, ...] = ()
