"""The `feeEstimate` method: the cost of a transaction in a given token."""

from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeEstimate, FeeEstimateParams, Trace
from relaydeck.fees.options import FeeOptions

__all__ = ["Estimator", "FeeEstimate", "FeeEstimateParams", "FeeOptions", "RpcFailure", "Trace"]
