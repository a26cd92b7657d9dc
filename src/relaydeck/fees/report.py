"""Reports the rates of a network, for people who want to check it."""

import asyncio
from typing import NamedTuple

from relaydeck.fees.errors import RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.exact import plain
from relaydeck.networks.model import FeeToken, Network


class TokenRate(NamedTuple):
    symbol: str
    value: str = ""  # fee tokens for one native coin, the margin included; empty: there is no usable rate
    updated_at: int | None = None  # the oldest feed behind it; None: the operator has fixed the rate
    problem: str = ""  # why estimates in this token fail
    note: str = ""  # what changed at its feeds, and which sources are not usable


async def report_rates(estimator: Estimator, network: Network) -> list[TokenRate]:
    return await asyncio.gather(*(_report(estimator, network, token) for token in network.fee_tokens))


async def _report(estimator: Estimator, network: Network, token: FeeToken) -> TokenRate:
    try:
        rate = await estimator.rate(network, token)
    except RpcFailure as failure:
        return TokenRate(token.symbol, problem=f"{failure.message}: {failure.description}")
    updated_at = min((each.updated_at for each in rate.rounds), default=None)
    changes = [f"feed {each.feed.address}: {each.change}" for each in rate.rounds if each.change]
    note = "; ".join([*changes, *rate.facts.get("not_usable", ())])
    return TokenRate(token.symbol, plain(rate.value), updated_at, note=note)
