"""The parameters and the result of `feeEstimate`."""

from typing import Annotated

import msgspec

from relaydeck.fields import field


class FeeEstimateParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fee_token: Annotated[
        str, field("The currency of the fee: the native symbol, or a fee token's symbol or address.", example="ETH")
    ]
    network: Annotated[str, field("Name of the network; it must be the relayer's.", example="sepolia")]
    transaction: Annotated[
        str,
        field(
            "The transaction as 0x-prefixed hex, signed or not.",
            example="0x02f283aa36a7808459682f008504a817c80082520894d8da6bf26964af9d7eed9e03e53415d37aa9604587038d7ea4"
            "c6800080c0",
        ),
    ]


class FeeEstimate(msgspec.Struct, frozen=True):
    """Both are plain decimals: `estimated_fee` tokens, at `conversion_rate` tokens for one native coin."""

    conversion_rate: str
    estimated_fee: str
