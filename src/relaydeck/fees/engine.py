"""Computes estimates: decode, ask what is not known yet, price, convert."""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from msgspec import UNSET, UnsetType

from relaydeck.fees import explain
from relaydeck.fees.chain_cache import ChainCache
from relaydeck.fees.convert import NATIVE_DECIMALS, fee_in_token, find_token
from relaydeck.fees.errors import (
    ExecutionReverted,
    InvalidParams,
    NodeRefused,
    NodeUnreachable,
    ReceiverNotWhitelisted,
)
from relaydeck.fees.exact import Exact
from relaydeck.fees.model import FeeEstimate, FeeEstimateParams
from relaydeck.fees.options import FeeOptions
from relaydeck.fees.pricing import Price
from relaydeck.fees.rates import NATIVE, Rate
from relaydeck.fees.trace import Trace
from relaydeck.networks.evm import quantity
from relaydeck.networks.evm.calls import estimate_gas_call
from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.error_kind import ErrorKind, error_kind
from relaydeck.networks.evm.errors import BadTransaction, NodeError, NodesUnreachable
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.question import Question
from relaydeck.networks.evm.revert import printable, reason
from relaydeck.networks.evm.transaction import Transaction, decode
from relaydeck.networks.model import FeeToken, Network, RpcUrl
from relaydeck.relayers.model import Policies, Relayer

T = TypeVar("T")
_GRACE = 0.1  # the pool minds the deadline itself, and says more about it
_LARGE = 16_384  # characters; decoding more takes long enough to keep other requests waiting


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
        self._monotonic = monotonic
        self._jitter = jitter
        self._client = Client(options.max_response_bytes, options.allow)
        self._caches: OrderedDict[tuple[tuple[RpcUrl, ...], int], ChainCache] = OrderedDict()  # the last used is last
        self._closing: set[asyncio.Task[None]] = set()

    async def estimate(
        self, relayer: Relayer, network: Network, params: FeeEstimateParams, trace: Trace | None
    ) -> FeeEstimate:
        if not params.network == network.name == relayer.network:
            raise InvalidParams("network is not the relayer's network")
        if network.network_type != "evm":
            raise InvalidParams("the network is not of type evm")
        token = find_token(network, params.fee_token)
        transaction = await self._decode(params.transaction, network.chain_id)
        if trace is not None:
            explain.inputs(trace, relayer, network, token, transaction)
            explain.policy(trace, relayer.policies)
        check_receiver(relayer.policies, transaction.to)
        cache = self.cache(relayer.custom_rpc_urls or network.rpc_urls, network.chain_id)
        deadline = asyncio.get_running_loop().time() + self._options.deadline
        try:
            wei, rate = await self._answers(cache, relayer, transaction, token, deadline, trace)
        except NodesUnreachable as failure:
            raise NodeUnreachable(str(failure)) from None
        except NodeError as error:
            raise NodeRefused(printable(error.message) or f"error {error.code}") from None
        except TimeoutError:
            raise NodeUnreachable("no node answered in time") from None
        return self._converted(wei, rate, token, trace)

    async def _decode(self, text: str, chain_id: int) -> Transaction:
        try:
            if len(text) <= _LARGE:
                return decode(text, chain_id=chain_id, max_bytes=self._options.max_transaction_bytes)
            return await asyncio.to_thread(
                decode, text, chain_id=chain_id, max_bytes=self._options.max_transaction_bytes
            )
        except BadTransaction as fault:
            raise InvalidParams(str(fault)) from None

    async def _answers(
        self,
        cache: ChainCache,
        relayer: Relayer,
        transaction: Transaction,
        token: FeeToken | None,
        deadline: float,
        trace: Trace | None,
    ) -> tuple[int, Rate]:
        """The fee in Wei and the rate. What is shared is under way before our own question goes out."""
        kept_price = cache.price(relayer.policies.eip1559_pricing)
        price_task = kept_price.take()
        rate_task = cache.rate(token).take() if token else None
        gas = await self._gas(cache, relayer, transaction, deadline, trace)
        price = await _settled(price_task, deadline)
        per_gas = capped(price.per_gas, relayer.policies.gas_price_cap)
        if trace is not None:
            explain.price(trace, price, relayer.policies.gas_price_cap, per_gas, kept_price.seconds_old)
        blob_price = await self._blob_price(cache, transaction, price, deadline)
        wei = gas * per_gas + transaction.blob_gas * blob_price
        if trace is not None:
            explain.native_fee(trace, gas, per_gas, transaction.blob_gas, blob_price, wei)
        return wei, await _settled(rate_task, deadline) if rate_task else NATIVE

    async def _gas(
        self, cache: ChainCache, relayer: Relayer, transaction: Transaction, deadline: float, trace: Trace | None
    ) -> int:
        if not relayer.policies.gas_limit_estimation:
            if transaction.gas_limit == 0:
                raise InvalidParams("the transaction has no gas limit, and gas_limit_estimation is off")
            if trace is not None:
                explain.gas(trace, transaction.gas_limit, None, None)
            return transaction.gas_limit
        call = estimate_gas_call(transaction, transaction.sender or relayer.address)
        try:
            answer = await cache.pool.ask(Question("eth_estimateGas", (call, "latest"), quantity.gas), deadline)
        except NodeError as error:
            if error_kind(error) is ErrorKind.REVERTED:
                raise ExecutionReverted(reason(error)) from None
            raise
        if trace is not None:
            explain.gas(trace, answer.value, answer.node, call)
        return answer.value

    async def _blob_price(self, cache: ChainCache, transaction: Transaction, price: Price, deadline: float) -> int:
        if not transaction.blob_gas:
            return 0
        if price.blob_base_fee:
            return price.blob_base_fee
        return await _settled(cache.blob_base_fee.take(), deadline)

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

    def cache(self, urls: tuple[RpcUrl, ...], chain_id: int) -> ChainCache:
        """Shared by every relayer with the same URLs."""
        key = (urls, chain_id)
        cache = self._caches.get(key)
        if cache is None:
            self._drop_idle()
            pool = NodePool(
                urls,
                chain_id,
                self._client,
                self._options.pool(),
                monotonic=self._monotonic,
                jitter=self._jitter,
            )
            cache = self._caches[key] = ChainCache(pool, self._options, self._monotonic)
        self._caches.move_to_end(key)
        cache.last_used = self._monotonic()
        return cache

    def _drop_idle(self) -> None:
        """Changed URLs leave their old pool behind; it is found here when the next pool is made.

        Relayers that each have URLs of their own share none: the pools used longest ago make room for the next.
        """
        now = self._monotonic()
        while self._caches and self._may_go(now - next(iter(self._caches.values())).last_used):
            _, cache = self._caches.popitem(last=False)
            task = asyncio.ensure_future(cache.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _may_go(self, idle: float) -> bool:
        if len(self._caches) < self._options.most_pools:
            return idle > self._options.max_idle
        return idle > 2 * self._options.deadline  # no estimate that began with it is still under way

    async def close(self) -> None:
        for cache in self._caches.values():
            await cache.close()
        await self._client.close()


async def _settled(task: "asyncio.Task[T]", deadline: float) -> T:
    """Shielded: others wait for the same fetch, and may wait longer than we do."""
    if task.done():
        return task.result()
    async with asyncio.timeout_at(deadline + _GRACE):
        return await asyncio.shield(task)


def capped(per_gas: int, cap: int | UnsetType) -> int:
    return per_gas if cap is UNSET else min(per_gas, cap)


def check_receiver(policies: Policies, to: str | None) -> None:
    if not policies.whitelist_receivers:
        return
    if to is None:
        raise ReceiverNotWhitelisted("the transaction creates a contract, and the relayer has a whitelist")
    if all(to != receiver.lower() for receiver in policies.whitelist_receivers):
        raise ReceiverNotWhitelisted(f"{to} is not on the relayer's whitelist")
