"""The parameters and the result of `feeEstimate`, and the trace of one estimate."""

from typing import Annotated, Any

import msgspec

from relaydeck.basis import FEE_MEANING, shown
from relaydeck.fields import field

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
