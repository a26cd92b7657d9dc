"""A network: its nodes, its native coin, and the tokens that can pay a fee on it."""

from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from relaydeck.basis import NODE_URLS, URL_FORM, shown
from relaydeck.fields import field, own_field
from relaydeck.identifiers import Identifier
from relaydeck.networks.chains import BaseFeeRule, ChainFacts, facts_of
from relaydeck.networks.evm.address import EvmAddress
from relaydeck.networks.evm.options import PoolRules
from relaydeck.quantities import Amount, PositiveAmount, TimeSpan, Tip
from relaydeck.scope import OwnLabels
from relaydeck.secret import decode_secret
from relaydeck.web_addresses import HeaderName, HeaderValue, NodeAddress, shown_address

NetworkType = Literal["evm"]
GREATEST_CHAIN_ID = 2**63 - 1
WarnHours = Annotated[int, Meta(ge=0, le=8760)]
FeeModelName = Literal[
    "ethereum", "op_stack", "mantle", "celo", "arbitrum", "scroll", "linea", "zksync", "gas_limit_charged"
]
_Bounded = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Positive = Annotated[int, Meta(ge=1, le=1_000_000)]


class NodeHeader(msgspec.Struct, frozen=True):
    """A header of every request to a node, for example with a key."""

    name: Annotated[HeaderName, own_field("Name of the header.", example="Authorization")]
    value: Annotated[
        HeaderValue | UnsetType,
        own_field("Its value. No response contains it; it may be a reference.", example="Bearer key", write_only=True),
    ]


# sentence: 2.4-rpc-urls
class RpcUrl(msgspec.Struct, frozen=True, cache_hash=True):
    """The URL of a node and its share of the calls. Path, query and user part may contain a key."""

    url: Annotated[
        NodeAddress,
        field(
            "URL of a node, exactly as configured.",
            basis=shown("2.4").but(value=URL_FORM, meaning=NODE_URLS),
            example="https://node.example.com/rpc",
        ),
    ]
    weight: Annotated[
        Annotated[int, Meta(ge=0)],
        field("Its share of the calls.", basis=shown("2.4").but(value=NODE_URLS, meaning=NODE_URLS), example=3),
    ] = 1
    headers: Annotated[
        Annotated[tuple[NodeHeader, ...], Meta(max_length=16)] | UnsetType,
        own_field("Headers that the node requires. Left out: none."),
    ] = UNSET
    # Stored only when it is true: what earlier versions stored is connected to as before.
    set_over_http: Annotated[
        bool | UnsetType,
        own_field("Whether it was set over HTTP.", example=True, read_only=True, write_only=True),
    ] = UNSET

    @property
    def revealed_headers(self) -> list[tuple[str, str]]:
        """For the connection to the node, and for nothing else."""
        given = () if self.headers is UNSET else self.headers
        return [(each.name, each.value.reveal()) for each in given if each.value is not UNSET]

    @property
    def shown(self) -> str:
        """Scheme and host only: the part that may appear in logs, errors and events."""
        return shown_address(self.url)

    @property
    def redacted(self) -> "RpcUrl":
        """The same entry with the part of its URL that may be shown."""
        return RpcUrl(self.shown, self.weight)

    def __repr__(self) -> str:
        return f"RpcUrl({self.shown!r}, weight={self.weight})"

    __str__ = __repr__


RpcUrls = Annotated[tuple[RpcUrl, ...], Meta(max_length=64)]
urls_from_json = msgspec.json.Decoder(tuple[RpcUrl, ...], dec_hook=decode_secret).decode  # of the sealed form


class FixedRate(msgspec.Struct, frozen=True, tag_field="source", tag="fixed"):
    """A rate that the operator sets."""

    fixed: Annotated[PositiveAmount, own_field("Fee tokens for one native coin.", example="2500")]


_AGGREGATOR = "0x694AA1769357215DE4FAC081bf1f309aDC325306"
_MinPrice = Annotated[
    PositiveAmount | UnsetType, own_field("Price below which the answer is not used. Left out: 10^-12.", example="100")
]
_MaxPrice = Annotated[
    PositiveAmount | UnsetType,
    own_field("Price above which the answer is not used. Left out: 10^12.", example="100000"),
]
_MaxMove = Annotated[
    PositiveAmount | UnsetType,
    own_field(
        "Greatest change since the round before, in percent per hour. Left out: 50, where that round can be read.",
        example="50",
    ),
]
_OwnAge = Annotated[TimeSpan | UnsetType, own_field("Its own `max_age`. Left out: that of both.", example="25h")]


class FeedRate(msgspec.Struct, frozen=True, tag_field="source", tag="feed"):
    """A rate from one on-chain aggregator."""

    feed: Annotated[
        EvmAddress, own_field("Aggregator that returns fee tokens for one native coin.", example=_AGGREGATOR)
    ]
    max_age: Annotated[TimeSpan, own_field("Age above which its answer is not used.", example="1h")]
    inverse: Annotated[
        bool, own_field("Whether the aggregator returns native coins for one fee token.", example=False)
    ] = False
    min_price: _MinPrice = UNSET
    max_price: _MaxPrice = UNSET
    max_move_percent: _MaxMove = UNSET


class CrossedRate(msgspec.Struct, frozen=True, tag_field="source", tag="crossed"):
    """A rate from two on-chain aggregators, native/USD and token/USD."""

    native_usd: Annotated[
        EvmAddress, own_field("Aggregator that returns USD for one native coin.", example=_AGGREGATOR)
    ]
    token_usd: Annotated[
        EvmAddress,
        own_field(
            "Aggregator that returns USD for one fee token.",
            example="0xA2F78ab2355fe2f984D808B5CeE7FD0A93D5270E",
        ),
    ]
    max_age: Annotated[TimeSpan, own_field("Age above which an answer is not used.", example="1h")]
    native_max_age: _OwnAge = UNSET
    token_max_age: _OwnAge = UNSET
    native_min_price: _MinPrice = UNSET
    native_max_price: _MaxPrice = UNSET
    native_max_move_percent: _MaxMove = UNSET
    token_min_price: _MinPrice = UNSET
    token_max_price: _MaxPrice = UNSET
    token_max_move_percent: _MaxMove = UNSET


_POOL = "0x88e6A0c2dDD26FEEb64F039a2c41296FcB3f5640"
_ShortWindow = Annotated[
    bool, own_field("Whether a window below 10 minutes is meant: its price is cheap to move.", example=False)
]


class PoolRate(msgspec.Struct, frozen=True, tag_field="source", tag="pool"):
    """A time-weighted rate from a Uniswap-v3-style pool of the fee token."""

    pool: Annotated[
        EvmAddress, own_field("Pool of the fee token and the wrapped native coin, or another token.", example=_POOL)
    ]
    window: Annotated[TimeSpan, own_field("Time over which the price is averaged.", example="30m")]
    min_liquidity: Annotated[
        PositiveAmount, own_field("Least average liquidity of the pool, in its own unit.", example="1000000000000000")
    ]
    native_feed: Annotated[
        EvmAddress | UnsetType,
        own_field(
            "Aggregator that returns the pool's other token for one native coin. Left out: that token is the coin.",
            example=_AGGREGATOR,
        ),
    ] = UNSET
    native_max_age: Annotated[
        TimeSpan | UnsetType, own_field("Age above which its answer is not used. Left out: 1h.", example="1h")
    ] = UNSET
    native_min_price: _MinPrice = UNSET
    native_max_price: _MaxPrice = UNSET
    native_max_move_percent: _MaxMove = UNSET
    short_window: _ShortWindow = False


class MedianRate(msgspec.Struct, frozen=True, tag_field="source", tag="median"):
    """The median of several aggregators, pairs of aggregators and at most one pool, as long as they agree."""

    feeds: Annotated[
        Annotated[tuple[EvmAddress, ...], Meta(max_length=9)],
        own_field("Aggregators that return fee tokens for one native coin.", example=[_AGGREGATOR]),
    ]
    max_age: Annotated[TimeSpan, own_field("Age above which an answer is not used.", example="1h")]
    max_spread_percent: Annotated[
        PositiveAmount,
        own_field("How far the highest rate may be above the lowest, in percent; else there is no rate.", example="2"),
    ]
    crossed: Annotated[
        Annotated[tuple[CrossedRate, ...], Meta(max_length=9)],
        own_field("Pairs of aggregators, native/USD and token/USD, each one more source.", example=[]),
    ] = ()
    bounded_feeds: Annotated[
        Annotated[tuple[FeedRate, ...], Meta(max_length=9)],
        own_field("Aggregators with an age and bounds of their own, each one more source.", example=[]),
    ] = ()
    dex_pool: Annotated[
        EvmAddress | UnsetType,
        own_field("Pool of the fee token and the wrapped native coin, one more source.", example=_POOL),
    ] = UNSET
    dex_window: Annotated[
        TimeSpan | UnsetType, own_field("Time over which its price is averaged. Left out: 30m.", example="30m")
    ] = UNSET
    dex_min_liquidity: Annotated[
        PositiveAmount | UnsetType,
        own_field("Its least average liquidity. Left out: any.", example="1000000000000000"),
    ] = UNSET
    dex_short_window: _ShortWindow = False
    at_least: Annotated[
        Annotated[int, Meta(ge=1, le=28)] | UnsetType,
        own_field("How many of the sources must be usable; the others are left out. Left out: all.", example=2),
    ] = UNSET


Rate = FixedRate | FeedRate | CrossedRate | PoolRate | MedianRate


class FeeToken(msgspec.Struct, frozen=True):
    """A token that can pay a fee, and the source of its rate."""

    symbol: Annotated[Identifier, own_field("Symbol; a fee estimate refers to it.", example="USDC")]
    address: Annotated[
        EvmAddress,
        own_field("Contract address.", example="0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238"),
    ]
    decimals: Annotated[Annotated[int, Meta(ge=0, le=255)], own_field("Decimal places of the token.", example=6)]
    rate: Annotated[Rate, own_field("Where its rate comes from.", example={"fixed": "2500"})]
    margin_percent: Annotated[Amount, own_field("Added to the rate, in percent.", example="0")] = Decimal(0)


class Network(msgspec.Struct, frozen=True):
    name: Annotated[Identifier, own_field("Name; relayers refer to it.", example="sepolia")]
    network_type: Annotated[NetworkType, own_field("Kind of network.", example="evm", given_by="chain")]
    chain_id: Annotated[
        Annotated[int, Meta(ge=1, le=GREATEST_CHAIN_ID)],
        own_field("Chain id.", example=11_155_111, given_by="chain"),
    ]
    native_symbol: Annotated[Identifier, own_field("Symbol of the native coin.", example="ETH", given_by="chain")]
    rpc_urls: Annotated[
        RpcUrls,
        own_field(
            "Nodes of the network. Left out, with a log entry, when its sealed form does not open.",
            sealed_as="sealed_rpc_urls",
        ),
    ] = ()
    fee_tokens: Annotated[
        Annotated[tuple[FeeToken, ...], Meta(max_length=256)],
        own_field("Tokens that can pay a fee.", keyed_by="symbol"),
    ] = ()
    runway_warn_hours: Annotated[
        WarnHours | UnsetType,
        own_field(
            "At how many hours of runway the monitor warns; 0: never. Left out: the value of the service.",
            example=24,
        ),
    ] = UNSET
    max_lag_blocks: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | UnsetType,
        own_field(
            "Blocks that a node may be behind; one further behind is used while no other answers. Left out: 3.",
            example=3,
        ),
    ] = UNSET
    quorum: Annotated[
        Annotated[int, Meta(ge=1, le=5)] | UnsetType,
        own_field(
            "How many nodes decide what cannot be computed. Left out: 2 of three or more nodes, else 1.",
            example=2,
        ),
    ] = UNSET
    fee_model: Annotated[
        FeeModelName,
        own_field("What the chain charges: the rules of Ethereum, or those of a family of chains.", example="ethereum"),
    ] = "ethereum"
    tip_floor: Annotated[
        Tip | UnsetType, own_field("Lowest tip that an estimate assumes, in Wei. Left out: none.", example=0)
    ] = UNSET
    tip_ceiling: Annotated[
        Tip | UnsetType,
        own_field("Highest tip that an estimate assumes, in Wei. Left out: none.", example=100_000_000_000),
    ] = UNSET
    fee_horizon_blocks: Annotated[
        Annotated[int, Meta(ge=0, le=200)] | UnsetType,
        own_field("Full blocks that may come first: the estimated fee suffices after them. Left out: 0.", example=0),
    ] = UNSET
    gas_limit_cap: Annotated[
        _Bounded | UnsetType,
        own_field(
            "Highest gas limit of one transaction. Left out: that of the chain, if it is known, or of a block.",
            example=16_777_216,
        ),
    ] = UNSET
    block_seconds: Annotated[
        PositiveAmount | UnsetType,
        own_field("Time between two blocks, in seconds. Left out: that of the chain, if it is known.", example="12"),
    ] = UNSET
    base_fee_rule: Annotated[
        Literal[BaseFeeRule, "nodes"] | UnsetType,
        own_field(
            "How the next base fee follows from a block; `nodes`: they are asked. Left out: that of the chain, if it is"
            " known, or `nodes`.",
            example="eip1559",
        ),
    ] = UNSET
    base_fee_denominator: Annotated[
        _Positive | UnsetType,
        own_field("Of the rule `eip1559`. Left out: that of the chain, if it is known, or 8.", example=8),
    ] = UNSET
    base_fee_elasticity: Annotated[
        _Positive | UnsetType,
        own_field("Of the rule `eip1559`. Left out: that of the chain, if it is known, or 2.", example=2),
    ] = UNSET
    gas_margin_percent: Annotated[
        Annotated[int, Meta(ge=0, le=1000)] | UnsetType,
        own_field(
            "What senders add to the gas limit on a chain that charges it, and what nodes of `zksync` add in estimates."
            " Left out: that of the chain, if it is known, or 0.",
            example=20,
        ),
    ] = UNSET
    sequencer_feed: Annotated[
        EvmAddress | UnsetType,
        own_field(
            "Uptime feed of the chain's sequencer: while it reports an outage, no rate is used. Left out: none.",
            example="0xFdB631F5EE196F0ed6FAa767959853A9F217697D",
        ),
    ] = UNSET
    sequencer_grace_seconds: Annotated[
        Annotated[int, Meta(ge=0, le=604_800)] | UnsetType,
        own_field("How long after an outage no rate is used, in seconds. Left out: 3600.", example=3600),
    ] = UNSET
    labels: OwnLabels = UNSET
    chain: Annotated[
        Identifier | UnsetType,
        own_field(
            "Name of a known chain, which gives chain id, symbol, fee model and tip floor where they are left out. Left"
            " out: they are as given.",
            example="sepolia",
            write_only=True,
            stored=False,
        ),
    ] = UNSET

    @property
    def fee_horizon(self) -> int:
        return 0 if self.fee_horizon_blocks is UNSET else self.fee_horizon_blocks

    @property
    def facts(self) -> ChainFacts:
        """What is known about its chain, with what the network itself declares."""
        return _facts(self.chain_id, _declared_facts(self))

    @property
    def pool_rules(self) -> PoolRules:
        return _pool_rules(self.max_lag_blocks, self.quorum, self.facts)


_DECLARED = (
    "gas_limit_cap",
    "block_seconds",
    "base_fee_rule",
    "base_fee_denominator",
    "base_fee_elasticity",
    "gas_margin_percent",
)
_declared_facts = attrgetter(*_DECLARED)
_AS_FACT = {"block_seconds": float, "base_fee_rule": lambda rule: None if rule == "nodes" else rule}


@lru_cache(1024)
def _facts(chain_id: int, declared: tuple[Any, ...]) -> ChainFacts:
    """Cached: every estimate reads them."""
    given = {name: value for name, value in zip(_DECLARED, declared, strict=True) if value is not UNSET}
    as_facts = {name: _AS_FACT[name](value) if name in _AS_FACT else value for name, value in given.items()}
    return replace(facts_of(chain_id), **as_facts)


@lru_cache(1024)
def _pool_rules(max_lag_blocks: int | UnsetType, quorum: int | UnsetType, facts: ChainFacts) -> PoolRules:
    """Cached: every estimate reads them, and few networks differ."""
    given = {"max_lag_blocks": max_lag_blocks, "quorum": quorum}
    return PoolRules(facts=facts, **{name: value for name, value in given.items() if value is not UNSET})
