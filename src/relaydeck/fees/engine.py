"""Computes estimates: decode the transaction, ask the nodes, price the gas, convert to the fee token."""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from relaydeck.background import gather_some
from relaydeck.fees import explain
from relaydeck.fees.chain_cache import ChainCache, ChainCaches
from relaydeck.fees.conversion import NATIVE_DECIMALS, fee_in_token
from relaydeck.fees.errors import (
    ExecutionReverted,
    FeeDataDisputed,
    InvalidParams,
    NodeRefused,
    NodeUnreachable,
    ReceiverNotWhitelisted,
)
from relaydeck.fees.exact import Exact
from relaydeck.fees.gas import Gas, Run
from relaydeck.fees.gas_price import Block, Price
from relaydeck.fees.job import Job
from relaydeck.fees.model import FeeEstimate, FeeEstimateParams, Trace
from relaydeck.fees.models import Charge
from relaydeck.fees.options import FeeOptions
from relaydeck.fees.rates import NATIVE, Rate, find_token, uptime_feed
from relaydeck.fees.signed_price import check_blob_price
from relaydeck.networks.evm.errors import (
    BadTransaction,
    ErrorKind,
    NodeError,
    NodesDisagree,
    NodesUnreachable,
    error_kind,
)
from relaydeck.networks.evm.node_figures import NodeFigures
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.revert import printable, reason
from relaydeck.networks.evm.transaction import Transaction, decode
from relaydeck.networks.model import FeeToken, Network, RpcUrl
from relaydeck.relayers.model import Policies, Relayer

T = TypeVar("T")
_GRACE = 0.1  # the pool enforces the deadline itself, with a better message
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
        with _node_failures():
            wei, rate = await self._native_fee(Job(cache, relayer, network, transaction, trace), token, deadline)
        return self._converted(wei, rate, token, trace)

    async def rate(self, network: Network, token: FeeToken) -> Rate:
        """The rate that an estimate would use now. Raises RpcFailure."""
        cache = self._caches.find(network.rpc_urls, network.chain_id)
        deadline = asyncio.get_running_loop().time() + self._options.deadline
        with _node_failures():
            rate = await _result_of(cache.rate(token, uptime_feed(network)).take(), deadline)
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

    async def _native_fee(self, job: Job, token: FeeToken | None, deadline: float) -> tuple[int, Rate]:
        """The fee in Wei and the rate. The shared fetches are started before the estimate's own question is sent."""
        cache, transaction, policies = job.cache, job.transaction, job.relayer.policies
        cached_price = cache.price(policies.eip1559_pricing or transaction.is_signed)
        price_task = cached_price.take()
        rate_task = cache.rate(token, uptime_feed(job.network)).take() if token else None
        block_task = cache.latest_block.take() if transaction.is_signed else None
        price = job.priced(await _result_of(price_task, deadline))
        cap = UNSET if transaction.is_signed else policies.gas_price_cap
        per_gas = capped(price.per_gas, cap)
        if job.trace is not None:
            explain.price(job.trace, price, cap, per_gas, cached_price.seconds_old)
        charge = await self._charge(job, price, block_task, deadline)
        blob_price = await self._blob_price(cache, transaction, price, deadline)
        wei = charge.gas * per_gas + transaction.blob_gas * blob_price + charge.extra
        if job.trace is not None:
            explain.native_fee(job.trace, charge, per_gas, transaction.blob_gas, blob_price, wei)
        return wei, await _result_of(rate_task, deadline) if rate_task else NATIVE

    async def _charge(
        self, job: Job, price: Price, block_task: "asyncio.Task[Block] | None", deadline: float
    ) -> Charge:
        """What the network's fee model charges for the gas of the transaction."""
        run = job.run(price)
        gas, beside = await self._gas(job, run, deadline)
        if block_task is not None:
            job.check_sendable(gas, await _result_of(block_task, deadline), beside)
        charge = job.model.charge(job.transaction, gas, beside[len(beside) - job.model_questions :])
        if job.trace is not None:
            explain.fee_model(job.trace, job.model.name, charge)
        return charge

    async def _gas(self, job: Job, run: Run, deadline: float) -> tuple[Gas, list[Any]]:
        limit = job.transaction.gas_limit
        if job.relayer.policies.gas_limit_estimation:
            gas = await _measured(job.cache, run, deadline)
        elif limit == 0:
            raise InvalidParams("the transaction has no gas limit, and gas_limit_estimation is off")
        else:
            answers = (await job.cache.pool.ask_all(run.beside, deadline)).value if run.beside else []
            gas = Gas(limit, "", None, {}, answers)
        if job.trace is not None:
            explain.gas(job.trace, gas)
        return gas, gas.beside

    async def _blob_price(self, cache: ChainCache, transaction: Transaction, price: Price, deadline: float) -> int:
        if not transaction.blob_gas:
            return 0
        found = price.blob_base_fee
        if found is None:
            found = await _result_of(cache.blob_base_fee.take(), deadline)
        if transaction.is_signed:
            check_blob_price(transaction, found)
        return found

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
        """Connect to the nodes of these networks and read their fee data, a few networks at a time."""

        async def warm_one(network: Network) -> None:
            cache = self._caches.find(network.rpc_urls, network.chain_id)
            cache.pool.rules = network.pool_rules
            await asyncio.wait((cache.fee_market.take(),))  # a failure shows with the first estimate

        await gather_some(_WARMED_TOGETHER, warm_one, [each for each in networks if each.rpc_urls])

    def node_figures(self) -> NodeFigures:
        return self._caches.node_figures()

    def pool(self, urls: tuple[RpcUrl, ...], chain_id: int) -> NodePool:
        return self._caches.find(urls, chain_id).pool

    async def close(self) -> None:
        await self._caches.close()


@contextmanager
def _node_failures() -> Iterator[None]:
    """Raise the failure of a node as the failure of an estimate."""
    try:
        yield
    except NodesUnreachable as failure:
        raise NodeUnreachable(str(failure)) from None
    except NodesDisagree as failure:
        raise FeeDataDisputed(str(failure)) from None
    except NodeError as error:
        raise NodeRefused(printable(error.message) or f"error {error.code}") from None
    except TimeoutError:
        raise NodeUnreachable("no node answered in time") from None


async def _measured(cache: ChainCache, run: Run, deadline: float) -> Gas:
    try:
        return await cache.gas.measure(run, deadline)
    except NodeError as error:
        if error_kind(error) is ErrorKind.REVERTED:
            raise ExecutionReverted(reason(error)) from None
        raise


async def _result_of(task: "asyncio.Task[T]", deadline: float) -> T:
    """Shielded: other estimates wait for the same fetch, perhaps with a later deadline."""
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
