"""What `feeEstimate` is asked and what it answers."""

import msgspec


class FeeEstimateParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fee_token: str
    network: str
    transaction: str


class FeeEstimate(msgspec.Struct, frozen=True):
    """Both are plain decimals: `estimated_fee` tokens, at `conversion_rate` tokens for one native coin."""

    conversion_rate: str
    estimated_fee: str
