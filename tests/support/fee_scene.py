"""Relayers, networks and parameters for the tests, with defaults for what a test does not choose."""

from decimal import Decimal
from typing import Any

import rlp

from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeEstimate, FeeEstimateParams, Trace
from relaydeck.networks.model import FeeToken, FixedRate, Network, RpcUrl
from relaydeck.relayers.model import Policies, Relayer

SENDER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
TOKEN = "0x" + "70" * 20


def relayer(urls: tuple[RpcUrl, ...] = (), address: str = SENDER, **policies: Any) -> Relayer:
    return Relayer(
        id="r1",
        name="first",
        network="local",
        network_type="evm",
        address=address,
        signer_id="s1",
        custom_rpc_urls=urls,
        policies=Policies(**policies),
    )


def network(*urls: str, chain_id: int = 31337, tokens: tuple[FeeToken, ...] = ()) -> Network:
    return Network(
        name="local",
        network_type="evm",
        chain_id=chain_id,
        native_symbol="ETH",
        rpc_urls=tuple(RpcUrl(url) for url in urls),
        fee_tokens=tokens,
    )


def token(rate: Any = None, address: str = TOKEN, decimals: int = 6, margin: str = "0") -> FeeToken:
    return FeeToken(
        symbol="USDC",
        address=address,
        decimals=decimals,
        rate=rate or FixedRate(fixed=Decimal("2500.5")),
        margin_percent=Decimal(margin),
    )


def transaction(nonce: int = 0, chain_id: int = 31337, limit: int = 21_000) -> str:
    fields = [chain_id, nonce, 1, 2, limit, b"\x99" * 20, 1, b"", []]
    encoded: bytes = rlp.encode(fields)
    return "0x02" + encoded.hex()


async def ask(
    estimator: Estimator,
    where: Network,
    transaction: str,
    fee_token: str = "ETH",
    who: Relayer | None = None,
    trace: Trace | None = None,
) -> FeeEstimate:
    params = FeeEstimateParams(fee_token=fee_token, network=where.name, transaction=transaction)
    return await estimator.estimate(who or relayer(), where, params, trace)
