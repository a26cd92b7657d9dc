"""One estimate with every step, for people who want to check it."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeEstimateParams, Trace
from relaydeck.fields import own_field as field
from relaydeck.networks.model import Network
from relaydeck.relayers.model import Relayer


class EstimateFailure(msgspec.Struct, frozen=True):
    code: Annotated[int, field("The JSON-RPC error code.", example=-32000)]
    message: Annotated[str, field("The kind of failure.", example="Node unreachable")]
    description: Annotated[str, field("What went wrong.", example="no RPC URL answered")]


class EstimateReport(msgspec.Struct, frozen=True):
    steps: Annotated[
        tuple[dict[str, Any], ...],
        field(
            "Each step with its facts; amounts are text.",
            example=[{"step": "inputs", "relayer": "sepolia-1", "network": "sepolia", "chain_id": "11155111"}],
        ),
    ]
    error: Annotated[
        EstimateFailure | UnsetType, field("Why there is no estimate; absent when there is one.", example=UNSET)
    ] = UNSET


async def report_estimate(
    estimator: Estimator, relayer: Relayer, network: Network, transaction: str, token: str = ""
) -> EstimateReport:
    """`token` is a symbol or an address; empty: the native coin."""
    trace = Trace()
    failure: EstimateFailure | UnsetType = UNSET
    params = FeeEstimateParams(token or network.native_symbol, network.name, transaction)
    try:
        await estimator.estimate(relayer, network, params, trace)
    except RpcFailure as error:
        failure = EstimateFailure(error.code, error.message, error.description)
    return EstimateReport(tuple(trace.steps), failure)
