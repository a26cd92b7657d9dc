"""The fee of one estimate in Wei: what the gas, the blobs and the chain's own charges cost at the price of gas."""

import asyncio

from msgspec import UNSET, UnsetType

from relaydeck.fees import explain
from relaydeck.fees.chain_cache import result_of
from relaydeck.fees.errors import InvalidParams
from relaydeck.fees.gas import Gas, Run
from relaydeck.fees.gas_price import Block, Price
from relaydeck.fees.job import Job
from relaydeck.fees.models import Charge
from relaydeck.fees.node_failures import as_revert
from relaydeck.fees.signed_price import check_blob_price
from relaydeck.networks.evm.errors import NodeError


async def native_fee(job: Job, deadline: float) -> int:
    """The shared fetches are started before the estimate's own question is sent."""
    cache, transaction, policies = job.cache, job.transaction, job.relayer.policies
    cached_price = cache.price(policies.eip1559_pricing or transaction.is_signed)
    price_task = cached_price.take()
    block_task = cache.latest_block.take() if transaction.is_signed else None
    price = job.priced(await result_of(price_task, deadline))
    cap = UNSET if transaction.is_signed else policies.gas_price_cap
    per_gas = capped(price.per_gas, cap)
    if job.trace is not None:
        explain.price(job.trace, price, cap, per_gas, cached_price.seconds_old)
    charge = await _charge(job, price, block_task, deadline)
    blob_price = await _blob_price(job, price, deadline)
    wei = charge.gas * per_gas + transaction.blob_gas * blob_price + charge.extra
    if job.trace is not None:
        explain.native_fee(job.trace, charge, per_gas, transaction.blob_gas, blob_price, wei)
    return wei


async def _charge(job: Job, price: Price, block_task: "asyncio.Task[Block] | None", deadline: float) -> Charge:
    """What the network's fee model charges for the gas of the transaction."""
    try:
        gas = await _gas(job, job.run(price), deadline)
    except NodeError as error:
        if block_task is not None:
            await _require_sendable(job, block_task, deadline)
        raise as_revert(error) from None
    if block_task is not None:
        job.check_sendable(gas, await result_of(block_task, deadline))
    charge = job.model.charge(job.transaction, gas, job.model_answers(gas))
    if job.trace is not None:
        explain.fee_model(job.trace, job.model.name, charge)
    return charge


async def _require_sendable(job: Job, block_task: "asyncio.Task[Block]", deadline: float) -> None:
    """The gas of a transaction that cannot be sent any more may fail to be measured: then that is the reason."""
    block = await result_of(block_task, deadline)
    (next_nonce,) = (await job.cache.pool.ask_all([job.next_nonce], deadline)).value
    job.check_sendable(Gas(0, "", None, {}, [next_nonce]), block)


async def _gas(job: Job, run: Run, deadline: float) -> Gas:
    limit = job.transaction.gas_limit
    if job.relayer.policies.gas_limit_estimation:
        gas = await job.cache.gas.measure(run, deadline)
    elif limit == 0:
        raise InvalidParams("the transaction has no gas limit, and gas_limit_estimation is off")
    else:
        gas = await job.cache.gas.own_limit(run, deadline)
    if job.trace is not None:
        explain.gas(job.trace, gas)
    return gas


async def _blob_price(job: Job, price: Price, deadline: float) -> int:
    if not job.transaction.blob_gas:
        return 0
    found = price.blob_base_fee
    if found is None:
        found = await result_of(job.cache.blob_base_fee.take(), deadline)
    if job.transaction.is_signed:
        check_blob_price(job.transaction, found)
    return found


def capped(per_gas: int, cap: int | UnsetType) -> int:
    return per_gas if cap is UNSET else min(per_gas, cap)
