"""The rates of a network's fee tokens as estimates would use them now, for people who want to check them."""

import asyncio
from typing import NamedTuple

from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.networks.model import FeeToken, Network


class TokenRate(NamedTuple):
    symbol: str
    value: str = ""  # fee tokens for one native coin, the margin included; empty: there is no usable rate
    updated_at: int | None = None  # the oldest feed behind it; None: the operator has fixed the rate
    problem: str = ""  # why estimates in this token fail


async def report_rates(estimator: Estimator, network: Network) -> list[TokenRate]:
    return await asyncio.gather(*(_report(estimator, network, token) for token in network.fee_tokens))


async def _report(estimator: Estimator, network: Network, token: FeeToken) -> TokenRate:
    try:
        rate = await estimator.rate(network, token)
    except RpcFailure as failure:
        return TokenRate(token.symbol, problem=f"{failure.message}: {failure.description}")
    updated_at = min((each.updated_at for each in rate.rounds), default=None)
    return TokenRate(token.symbol, rate.value.plain(), updated_at)
