"""The options, parameters and result of `feeEstimate`, and the trace of one estimate."""

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from relaydeck.basis import FEE_MEANING, shown
from relaydeck.fields import field
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.node_rule import UNGUARDED, NodeGuards, node_guards
from relaydeck.settings.model import Settings

_SHOWN = shown("4.5")


# sentence: 4.5-params
class FeeEstimateParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fee_token: Annotated[
        str,
        field(
            "The currency of the fee: the native symbol, or a fee token's symbol or address.",
            basis=_SHOWN.but(meaning=FEE_MEANING),
            example="ETH",
        ),
    ]
    network: Annotated[
        str,
        field(
            "Name of the network; it must be the relayer's.", basis=_SHOWN.but(meaning=FEE_MEANING), example="sepolia"
        ),
    ]
    transaction: Annotated[
        str,
        field(
            "The encoded transaction: 0x-prefixed hex, signed or not.",
            basis=_SHOWN.but(value=FEE_MEANING),
            example="0x02f283aa36a7808459682f008504a817c80082520894d8da6bf26964af9d7eed9e03e53415d37aa9604587038d7ea4"
            "c6800080c0",
        ),
    ]


class FeeEstimate(msgspec.Struct, frozen=True):
    """Both are plain decimals: `estimated_fee` tokens, at `conversion_rate` tokens for one native coin."""

    conversion_rate: str
    estimated_fee: str


class Trace:
    """The steps of one estimate, so that a surprising figure can be checked by hand.

    It contains only what may be printed: amounts as text, nodes by host, never the secret part of a URL.
    """

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []

    def add(self, step: str, **facts: Any) -> None:
        self.steps.append({"step": step, **{name: _shown(fact) for name, fact in facts.items()}})


def _shown(fact: Any) -> Any:
    """Integers become text: some readers of JSON have no integers above 2**53."""
    if isinstance(fact, int) and not isinstance(fact, bool):
        return str(fact)
    if isinstance(fact, dict):
        return {name: _shown(value) for name, value in fact.items()}
    if isinstance(fact, list | tuple):
        return [_shown(value) for value in fact]
    return fact


@dataclass(frozen=True)
class FeeOptions(PoolOptions):
    priority_percentile: float = 50.0  # of the tips paid in a block, weighted by gas
    history_blocks: int = 10  # how many blocks the median is taken over
    cache_age: float = 1.0  # how long fee data and rates are shared, unless a newer block is seen
    max_transaction_bytes: int = 131_072  # the most that nodes accept
    max_idle: float = 600.0  # a pool unused for this long is closed
    max_pools: int = 4_000  # kept at a time, unless more are in use; about 12 KB each
    guards: NodeGuards = UNGUARDED  # of the addresses of nodes


def fee_options(settings: Settings) -> FeeOptions:
    return FeeOptions(
        priority_percentile=settings.priority_fee_percentile,
        history_blocks=settings.priority_fee_blocks,
        deadline=settings.rpc_deadline_seconds,
        try_timeout=settings.rpc_try_timeout_seconds,
        pause_max=settings.rpc_probe_seconds,
        connections_per_url=settings.rpc_connections,
        guards=node_guards(settings.rpc_guard, settings.rpc_allow),
    )
