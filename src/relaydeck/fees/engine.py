"""Computes estimates: decode the transaction, ask the nodes, price the gas, convert to the fee token."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress

from relaydeck.background import gather_some
from relaydeck.fees import explain
from relaydeck.fees.chain_cache import ChainCaches, result_of
from relaydeck.fees.conversion import fee_in_token
from relaydeck.fees.errors import InvalidParams, ReceiverNotWhitelisted, RpcFailure
from relaydeck.fees.exact import Exact
from relaydeck.fees.job import Job
from relaydeck.fees.model import FeeEstimate, FeeEstimateParams, Trace
from relaydeck.fees.native_fee import native_fee
from relaydeck.fees.node_failures import NODE_FAILURES, as_estimate_failure
from relaydeck.fees.options import FeeOptions
from relaydeck.fees.rates import NATIVE, Rate, find_token, uptime_feed
from relaydeck.networks.evm import rlp
from relaydeck.networks.evm.errors import BadTransaction
from relaydeck.networks.evm.node_figures import NodeFigures
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.transaction import Transaction, decode
from relaydeck.networks.model import FeeToken, Network, RpcUrl
from relaydeck.quantities import NATIVE_DECIMALS
from relaydeck.relayers.model import Policies, Relayer

_NOBODY = "0x" + 40 * "0"
_WARMED_TOGETHER = 8  # networks
_LARGE = 16_384  # characters; decoding more would delay other requests, so a thread does it


class Engine:
    def __init__(
        self,
        options: FeeOptions,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        jitter: random.Random | None,
    ) -> None:
        self._options = options
        self._now = now
        self._caches = ChainCaches(options, monotonic, jitter)

    async def estimate(
        self, relayer: Relayer, network: Network, params: FeeEstimateParams, trace: Trace | None
    ) -> FeeEstimate:
        if not params.network == network.name == relayer.network:
            raise InvalidParams("network is not the relayer's network")
        token = find_token(network, params.fee_token)
        transaction = await self._decode(params.transaction, network.chain_id)
        if trace is not None:
            explain.inputs(trace, relayer, network, token, transaction)
            explain.policy(trace, relayer.policies)
        check_receiver(relayer.policies, transaction.to)
        cache = self._caches.find(relayer.custom_rpc_urls or network.rpc_urls, network.chain_id)
        cache.pool.rules = network.pool_rules
        deadline = asyncio.get_running_loop().time() + self._options.deadline
        try:
            rate_task = cache.rate(token, uptime_feed(network)).take() if token else None
            wei = await native_fee(Job(cache, relayer, network, transaction, trace), deadline)
            rate = await result_of(rate_task, deadline) if rate_task else NATIVE
        except NODE_FAILURES as failure:
            raise as_estimate_failure(failure) from None
        return self._converted(wei, rate, token, trace)

    async def rate(self, network: Network, token: FeeToken) -> Rate:
        """The rate that an estimate would use now. Raises RpcFailure."""
        cache = self._caches.find(network.rpc_urls, network.chain_id)
        deadline = asyncio.get_running_loop().time() + self._options.deadline
        try:
            rate = await result_of(cache.rate(token, uptime_feed(network)).take(), deadline)
        except NODE_FAILURES as failure:
            raise as_estimate_failure(failure) from None
        rate.check_age(self._now(), self._options.max_skew)
        return rate

    async def _decode(self, text: str, chain_id: int) -> Transaction:
        try:
            if len(text) <= _LARGE:
                return decode(text, chain_id=chain_id, max_bytes=self._options.max_transaction_bytes)
            return await asyncio.to_thread(
                decode, text, chain_id=chain_id, max_bytes=self._options.max_transaction_bytes
            )
        except BadTransaction as fault:
            raise InvalidParams(str(fault)) from None

    def _converted(self, wei: int, rate: Rate, token: FeeToken | None, trace: Trace | None) -> FeeEstimate:
        now = self._now()
        if trace is not None:
            explain.rate(trace, token, rate, now)
        rate.check_age(now, self._options.max_skew)
        decimals = token.decimals if token else NATIVE_DECIMALS
        estimate = FeeEstimate(rate.value.plain(), fee_in_token(wei, rate.value, decimals).plain())
        if trace is not None:
            explain.result(trace, Exact(wei, NATIVE_DECIMALS).times(rate.value), decimals, estimate)
        return estimate

    async def warm(self, networks: Sequence[Network]) -> None:
        """Estimate a transfer of nothing on each of these networks, a few at a time.

        Afterwards there is a connection to a node, it is known in which way the node measures gas, and every step of an
        estimate has run once.
        """

        async def warm_one(network: Network) -> None:
            relayer = Relayer("", "", network.name, "evm", _NOBODY, "")
            params = FeeEstimateParams(network.native_symbol, network.name, _transfer_of_nothing(network.chain_id))
            with suppress(RpcFailure):  # it shows with the first estimate
                await self.estimate(relayer, network, params, None)

        await gather_some(_WARMED_TOGETHER, warm_one, [each for each in networks if each.rpc_urls])

    def node_figures(self) -> NodeFigures:
        return self._caches.node_figures()

    def pool(self, urls: tuple[RpcUrl, ...], chain_id: int) -> NodePool:
        return self._caches.find(urls, chain_id).pool

    async def close(self) -> None:
        await self._caches.close()


def _transfer_of_nothing(chain_id: int) -> str:
    """A legacy transaction, which every chain takes: a node that refuses others is not asked about one."""
    return "0x" + rlp.encode([0, 0, 0, bytes.fromhex(_NOBODY[2:]), 0, b"", chain_id, 0, 0]).hex()


def check_receiver(policies: Policies, to: str | None) -> None:
    if not policies.whitelist_receivers:
        return
    if to is None:
        raise ReceiverNotWhitelisted("the transaction creates a contract, and the relayer has a whitelist")
    if all(to != receiver.lower() for receiver in policies.whitelist_receivers):
        raise ReceiverNotWhitelisted(f"{to} is not on the relayer's whitelist")
