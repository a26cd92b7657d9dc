"""Computes estimates: decode the transaction, ask the nodes, price the gas, convert to the fee token."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from relaydeck.fees import errors, explain, gas_price
from relaydeck.fees.chain_cache import CachedValue, ChainCache, ChainCaches, result_of
from relaydeck.fees.exact import plain, round_up, scaled, times
from relaydeck.fees.gas import Gas, Run
from relaydeck.fees.gas_price import Price
from relaydeck.fees.model import FeeEstimate, FeeEstimateParams, FeeOptions, Trace
from relaydeck.fees.models import MODELS, Charge, FeeModel
from relaydeck.fees.rates import NATIVE, Rate, find_token, uptime_feed
from relaydeck.networks.chains import ChainFacts
from relaydeck.networks.evm import rlp
from relaydeck.networks.evm.errors import BadTransaction, NodeError, lacks_block
from relaydeck.networks.evm.node_figures import NodeFigures
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import Question, at_block, read_quantity
from relaydeck.networks.evm.transaction import Transaction, decode
from relaydeck.networks.model import FeeToken, Network, RpcUrl
from relaydeck.process.background import gather_some
from relaydeck.quantities import NATIVE_DECIMALS
from relaydeck.relayers.model import Policies, Relayer


class Job(msgspec.Struct, eq=False):
    """One estimate under way, and how the network's rules and the relayer's policies apply to its transaction."""

    cache: ChainCache
    relayer: Relayer
    network: Network
    transaction: Transaction
    trace: Trace | None
    model_questions: int = 0  # the last of the questions in the request for the gas
    block: int = 0  # after which the transaction runs
    rate: tuple[int, int] | None = None  # of the currency that pays; None: it is Wei, or the chain has not answered yet
    later: dict[str, int | str] = {}  # fees in Wei if it is mined later, for the trace
    # Of the network and of the transaction: asked for often, and set once.
    model: FeeModel = MODELS["ethereum"]
    is_signed: bool = False

    def __post_init__(self) -> None:
        self.model, self.is_signed = MODELS[self.network.fee_model], self.transaction.is_signed

    @property
    def facts(self) -> ChainFacts:
        return self.cache.pool.rules.facts

    @property
    def cached_price(self) -> CachedValue[Price]:
        return self.cache.price(self.relayer.policies.eip1559_pricing or self.is_signed)

    @property
    def own(self) -> Transaction | None:
        """The transaction, if its own fields say in Wei what it pays: a signed one, at the rate of its currency."""
        if not self.is_signed:
            return None
        if self.transaction.fee_currency is None:
            return self.transaction
        return None if self.rate is None else gas_price.in_wei(self.transaction, self.rate)

    def check_price(self, price: Price) -> None:
        if self.own is not None:
            gas_price.check_price(self.own, price.base_fee or 0)

    def priced(self, price: Price) -> Price:
        """What this transaction pays per gas: a signed one by its own fields, any other by the network's data."""
        if self.own is not None:
            return gas_price.own_price(self.own, price, self.model.pays_tip)
        return market_price(self.network, price)

    @property
    def cap(self) -> int | UnsetType:
        return UNSET if self.is_signed else self.relayer.policies.gas_price_cap

    def paid(self, price: Price) -> int:
        """Per gas, at a price of the network."""
        return capped(self.priced(price).per_gas, self.cap)

    def fee(self, charge: Charge, price: Price, blob_price: int) -> int:
        """In Wei. `blob_price` counts where the price has none."""
        blobs = self.transaction.blob_gas * self.blob_paid(price, blob_price)
        return charge.gas * self.paid(price) + blobs + charge.extra

    def blob_paid(self, price: Price, blob_price: int) -> int:
        found = price.blob_base_fee or blob_price
        return min(found, self.transaction.max_fee_per_blob_gas or 0) if self.is_signed else found

    def at_horizon(self, price: Price) -> Price:
        """The price after as many full blocks as the network's estimates cover."""
        if not self.network.fee_horizon:
            return price
        found = price.after(self.network.fee_horizon)
        if found is None or (self.transaction.blob_gas and found.blob_base_fee is None):
            raise errors.InternalFailure("fee_horizon_blocks is set, and no rule says how the price changes")
        return found

    @property
    def next_nonce(self) -> Question[int]:
        return Question("eth_getTransactionCount", (self.transaction.sender, hex(self.block)), read_quantity)

    def run(self, price: Price) -> Run:
        transaction, self.block = self.transaction, price.block
        call = transaction.as_call(transaction.sender or self.relayer.address)
        questions = [at_block(each, hex(price.block)) for each in self.model.questions(transaction, call)]
        self.model_questions = len(questions)
        if self.is_signed:
            questions.insert(0, self.next_nonce)
        return Run(
            call=call,
            prices=price_fields(transaction, price),
            block=price.block,
            time=price.time,
            base_fee=price.base_fee,
            greatest=self.greatest_limit(price),
            own_limit=transaction.gas_limit,
            is_signed=self.is_signed,
            simulated=self.model.simulated,
            wants_limit=self.trace is not None,
            extra_calls=questions,
            needs_extra=self.model.needs_answers,
            refuses=self._refuses,
        )

    def greatest_limit(self, price: Price) -> int | None:
        """Of a transaction, by the chain and by its newest block; None: neither is known."""
        known = [each for each in (self.facts.gas_limit_cap, price.gas_limit) if each is not None]
        return min(known, default=None)

    def model_answers(self, gas: Gas) -> list[Any]:
        return gas.extra_answers[len(gas.extra_answers) - self.model_questions :]

    def _refuses(self, gas: Gas) -> bool:
        try:
            self.check_need(gas)
        except errors.InvalidParams:
            return True
        return False

    def check_need(self, gas: Gas) -> None:
        """Raises `InvalidParams` for a signed transaction with too low a limit, or a nonce that is used."""
        if not self.is_signed:
            return
        gas_price.check_limit(self.transaction, gas.limit if gas.method == "eth_estimateGas" else None, None)
        if isinstance(next_nonce := gas.extra_answers[0], int):
            gas_price.check_nonce(self.transaction, next_nonce)


def market_price(network: Network, price: Price) -> Price:
    """What a transaction without a price of its own pays per gas."""
    if not MODELS[network.fee_model].pays_tip and price.base_fee is not None:
        return price.with_tip(0)
    return gas_price.tip_within(price, network.tip_floor, network.tip_ceiling)


def price_fields(transaction: Transaction, price: Price) -> dict[str, str]:
    """The fields with which the transaction runs at the price, whatever base fee the node assumes."""
    paid = hex(price.per_gas)
    if transaction.type < 2:
        return {"gasPrice": paid}
    fields = {"maxFeePerGas": paid, "maxPriorityFeePerGas": paid}
    if transaction.blob_hashes:
        fields["maxFeePerBlobGas"] = hex(max(transaction.max_fee_per_blob_gas or 0, price.blob_base_fee or 0))
    return fields


# -- The fee of one estimate in Wei: what the gas, the blobs and the chain's own charges cost at the price of gas --


async def native_fee(job: Job, deadline: float) -> int:
    """The shared fetches are started before the estimate's own question is sent."""
    transaction, cached_price = job.transaction, job.cached_price
    price_task = cached_price.take()
    shared = await result_of(price_task, deadline)
    job.rate = None
    job.check_price(shared)
    price, charged = job.priced(shared), job.at_horizon(shared)
    if job.trace is not None:
        explain.price(job.trace, job.priced(charged), job.cap, job.paid(charged), cached_price.seconds_old)
    if job.is_signed:
        gas_price.check_limit(transaction, None, job.greatest_limit(price))
    charge = await _charge(job, price, deadline)
    job.rate = charge.rate
    job.check_price(shared)
    if charge.tip is not None and shared.base_fee is not None:
        shared = shared.with_tip(charge.tip)
        charged = job.at_horizon(shared)
    blob_price = await _blob_price(job, shared, deadline)
    wei = job.fee(charge, charged, blob_price)
    if job.trace is not None:
        blobs = (transaction.blob_gas, job.blob_paid(charged, blob_price))
        explain.native_fee(job.trace, charge, job.paid(charged), *blobs, wei)
        await _look_ahead(job, shared, charge, blob_price, deadline)
    return wei


_LATER = (5, 20)  # blocks
_NO_RULE = "not known: no rule says how the price changes"


async def _look_ahead(job: Job, price: Price, charge: Charge, blob_price: int, deadline: float) -> None:
    """What the transaction costs if it is mined later: at most, by the chain's rule, and as recent blocks changed."""
    try:
        recent = (await job.cache.pool.ask(gas_price.base_fees_question(price.block), deadline)).value
    except errors.NODE_FAILURES:
        recent = []
    job.later = {"next_block": job.fee(charge, price, blob_price)}
    for blocks in _LATER:
        bound, typical = price.after(blocks - 1), None
        if price.base_fee is not None:
            typical = gas_price.typical_base_fee(price.base_fee, recent, blocks - 1)
        job.later[f"in_{blocks}_blocks_at_most"] = _later_fee(job, charge, bound, blob_price)
        usual = None if typical is None else price.at(typical, price.blob_base_fee or blob_price)
        job.later[f"in_{blocks}_blocks_typically"] = _later_fee(job, charge, usual, blob_price)


def _later_fee(job: Job, charge: Charge, price: Price | None, blob_price: int) -> int | str:
    if price is None or (job.transaction.blob_gas and price.blob_base_fee is None):
        return _NO_RULE
    if job.own is not None and not gas_price.is_mined_at(job.own, price):
        return "not mined: its own price would be too low"
    return job.fee(charge, price, blob_price)


async def _charge(job: Job, price: Price, deadline: float) -> Charge:
    """What the network's fee model charges for the gas of the transaction."""
    try:
        gas = await _gas(job, job.run(price), deadline)
    except NodeError as error:
        if job.is_signed:
            await _require_nonce(job, deadline)
        raise errors.as_revert(error) from None
    job.check_need(gas)
    charge = job.model.charge(job.transaction, gas, job.model_answers(gas), job.facts.gas_margin_percent)
    if job.trace is not None:
        explain.fee_model(job.trace, job.model.name, charge)
    return charge


async def _require_nonce(job: Job, deadline: float) -> None:
    """The gas of a transaction that cannot be sent any more may fail to be measured: then that is the reason."""
    with suppress(NodeError):
        gas_price.check_nonce(job.transaction, (await job.cache.pool.ask(job.next_nonce, deadline)).value)


async def _gas(job: Job, run: Run, deadline: float) -> Gas:
    limit = job.transaction.gas_limit
    if job.relayer.policies.gas_limit_estimation:
        answer = await job.cache.gas.measure(run, deadline)
    elif limit == 0:
        raise errors.InvalidParams("the transaction has no gas limit, and gas_limit_estimation is off")
    else:
        answer = await job.cache.gas.own_limit(run, deadline)
    if job.trace is not None:
        explain.gas(job.trace, answer.value, answer.node)
    return answer.value


async def _blob_price(job: Job, price: Price, deadline: float) -> int:
    if not job.transaction.blob_gas:
        return 0
    found = price.blob_base_fee
    if found is None:
        found = await result_of(job.cache.blob_base_fee.take(), deadline)
    if job.is_signed:
        gas_price.check_blob_price(job.transaction, found)
    return found


def capped(per_gas: int, cap: int | UnsetType) -> int:
    return per_gas if cap is UNSET else min(per_gas, cap)


def fee_in_token(wei: int, rate: Decimal, decimals: int) -> Decimal:
    """Exact until the one rounding at the end, which is up: an estimate is never too low."""
    return round_up(times(scaled(wei, NATIVE_DECIMALS), rate), decimals)


def _in_token(fees: dict[str, int | str], rate: Decimal, decimals: int) -> dict[str, str]:
    """Those that are known."""
    return {
        name: each if isinstance(each, str) else plain(fee_in_token(each, rate, decimals))
        for name, each in fees.items()
    }


_NOBODY = "0x" + 40 * "0"
_WARMED_TOGETHER = 8  # networks
_CATCH_UP = 0.1  # seconds, in which a server gets a block that others have
_LARGE = 16_384  # characters; decoding more would delay other requests, so a thread does it


class Estimator:
    """One per event loop, long-lived: it keeps connections and the values that estimates share."""

    def __init__(
        self,
        options: FeeOptions,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        random: random.Random | None = None,
    ) -> None:
        self._options = options
        self._now = now
        self._monotonic = monotonic
        self._caches = ChainCaches(options, monotonic, random, now)

    async def estimate(
        self, relayer: Relayer, network: Network, params: FeeEstimateParams, trace: Trace | None = None
    ) -> FeeEstimate:
        """Raises `RpcFailure` and nothing else."""
        try:
            return await self._estimate(relayer, network, params, trace)
        except errors.RpcFailure:
            raise
        except Exception as error:
            # The text of an unexpected error may quote a URL, so it is only in the cause.
            raise errors.InternalFailure(f"an unexpected {type(error).__name__}") from error

    async def _estimate(
        self, relayer: Relayer, network: Network, params: FeeEstimateParams, trace: Trace | None
    ) -> FeeEstimate:
        if not params.network == network.name == relayer.network:
            raise errors.InvalidParams("network is not the relayer's network")
        token = find_token(network, params.fee_token)
        transaction = await self._decode(params.transaction, network.chain_id)
        if trace is not None:
            explain.inputs(trace, relayer, network, token, transaction)
            explain.policy(trace, relayer.policies)
        if transaction.type not in MODELS[network.fee_model].types:
            raise errors.InvalidParams(f"transaction type {transaction.type} is not supported")
        check_receiver(relayer.policies, transaction.to)
        cache = self._cache(relayer.custom_rpc_urls or network.rpc_urls, network)
        deadline = asyncio.get_running_loop().time() + self._options.deadline
        try:
            rate_task = cache.rate(token, uptime_feed(network)).take() if token else None
            job = Job(cache, relayer, network, transaction, trace)
            wei = await self._native_fee(job, deadline)
            rate = await result_of(rate_task, deadline) if rate_task else NATIVE
        except errors.NODE_FAILURES as failure:
            raise errors.as_estimate_failure(failure) from None
        return self._converted(job, wei, rate, token)

    async def _native_fee(self, job: Job, deadline: float) -> int:
        """A transaction that is refused as of a block that was read earlier may depend on one that is newer. And the
        next server behind one URL may not have the block yet."""
        started, steps = self._monotonic(), len(job.trace.steps) if job.trace else 0
        try:
            return await native_fee(job, deadline)
        except (errors.RpcFailure, NodeError) as failure:
            is_behind = isinstance(failure, NodeError) and lacks_block(failure)
            if not job.cached_price.expire(started) and not is_behind:
                raise
        if is_behind:
            await asyncio.sleep(_CATCH_UP)
        if job.trace is not None:
            del job.trace.steps[steps:]
        return await native_fee(job, deadline)

    async def rate(self, network: Network, token: FeeToken) -> Rate:
        """What one native coin is worth in the token, as an estimate would use it now. Raises `RpcFailure`."""
        cache = self._cache(network.rpc_urls, network)
        deadline = asyncio.get_running_loop().time() + self._options.deadline
        try:
            rate = await result_of(cache.rate(token, uptime_feed(network)).take(), deadline)
        except errors.NODE_FAILURES as failure:
            raise errors.as_estimate_failure(failure) from None
        rate.check_age(self._now())
        return rate

    async def _decode(self, text: str, chain_id: int) -> Transaction:
        try:
            if len(text) <= _LARGE:
                return decode(text, chain_id=chain_id, max_bytes=self._options.max_transaction_bytes)
            return await asyncio.to_thread(
                decode, text, chain_id=chain_id, max_bytes=self._options.max_transaction_bytes
            )
        except BadTransaction as fault:
            raise errors.InvalidParams(str(fault)) from None

    def _converted(self, job: Job, wei: int, rate: Rate, token: FeeToken | None) -> FeeEstimate:
        now, trace = self._now(), job.trace
        if trace is not None:
            explain.rate(trace, token, rate, now)
        rate.check_age(now)
        decimals = token.decimals if token else NATIVE_DECIMALS
        estimate = FeeEstimate(plain(rate.value), plain(fee_in_token(wei, rate.value, decimals)))
        if trace is not None:
            explain.later_fees(trace, job.network.fee_horizon, _in_token(job.later, rate.value, decimals))
            explain.result(trace, times(scaled(wei, NATIVE_DECIMALS), rate.value), decimals, estimate)
        return estimate

    async def warm(self, networks: Sequence[Network]) -> None:
        """Estimate a transfer of nothing on each of these networks, a few at a time.

        Afterwards there is a connection to a node, it is known in which way the node measures gas, and every step of an
        estimate has run once.
        """

        async def warm_one(network: Network) -> None:
            relayer = Relayer("", "", network.name, "evm", _NOBODY, "")
            params = FeeEstimateParams(network.native_symbol, network.name, _transfer_of_nothing(network.chain_id))
            with suppress(errors.RpcFailure):  # it shows with the first estimate
                await self._estimate(relayer, network, params, None)

        await gather_some(_WARMED_TOGETHER, warm_one, [each for each in networks if each.rpc_urls])

    def node_figures(self) -> NodeFigures:
        """Of the nodes that this process uses."""
        return self._caches.node_figures()

    async def pool(self, urls: tuple[RpcUrl, ...], network: Network) -> NodePool:
        """The node pool that estimates over these URLs use; the monitor reads from it, too."""
        return self._cache(urls, network).pool

    def _cache(self, urls: tuple[RpcUrl, ...], network: Network) -> ChainCache:
        cache = self._caches.find(urls, network.chain_id)
        cache.follow(network)
        return cache

    async def close(self) -> None:
        await self._caches.close()


def _transfer_of_nothing(chain_id: int) -> str:
    """A legacy transaction, which every chain takes: a node that refuses others is not asked about one."""
    return "0x" + rlp.encode([0, 0, 0, bytes.fromhex(_NOBODY[2:]), 0, b"", chain_id, 0, 0]).hex()


def check_receiver(policies: Policies, to: str | None) -> None:
    if not policies.whitelist_receivers:
        return
    if to is None:
        raise errors.ReceiverNotWhitelisted("the transaction creates a contract, and the relayer has a whitelist")
    if all(to != receiver.lower() for receiver in policies.whitelist_receivers):
        raise errors.ReceiverNotWhitelisted(f"{to} is not on the relayer's whitelist")
