"""The `feeEstimate` method: what a transaction will cost, in a given token."""

from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeEstimate, FeeEstimateParams
from relaydeck.fees.options import FeeOptions
from relaydeck.fees.trace import Trace

__all__ = ["Estimator", "FeeEstimate", "FeeEstimateParams", "FeeOptions", "RpcFailure", "Trace"]
