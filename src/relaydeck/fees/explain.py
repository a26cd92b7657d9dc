"""Writes the steps of an estimate into its trace. It computes nothing: it shows the values that were used."""

from decimal import Decimal
from typing import Any

from msgspec import UNSET, UnsetType

from relaydeck.fees.exact import plain, scaled
from relaydeck.fees.gas import Gas
from relaydeck.fees.gas_price import Price
from relaydeck.fees.model import FeeEstimate, Trace
from relaydeck.fees.models import Charge
from relaydeck.fees.rates import Rate, Round
from relaydeck.networks.evm.transaction import Transaction
from relaydeck.networks.model import FeeToken, Network
from relaydeck.relayers.model import Policies, Relayer


def inputs(trace: Trace, relayer: Relayer, network: Network, token: FeeToken | None, transaction: Transaction) -> None:
    trace.add(
        "inputs",
        relayer=relayer.id,
        network=network.name,
        chain_id=network.chain_id,
        fee_token=token.symbol if token else network.native_symbol,
    )
    trace.add(
        "transaction",
        type=transaction.type,
        signed=transaction.sender is not None,
        sender=transaction.sender or relayer.address,
        to=transaction.to or "(contract creation)",
        value_wei=transaction.value,
        nonce=transaction.nonce,
        data_bytes=len(transaction.data),
        gas_limit=transaction.gas_limit,
        blobs=len(transaction.blob_hashes),
    )


def policy(trace: Trace, policies: Policies) -> None:
    trace.add(
        "policy",
        gas_limit_estimation=policies.gas_limit_estimation,
        eip1559_pricing=policies.eip1559_pricing,
        gas_price_cap_wei=shown_cap(policies.gas_price_cap),
        whitelist_receivers=list(policies.whitelist_receivers),
    )


def shown_cap(cap: int | UnsetType) -> int | None:
    return None if cap is UNSET else cap


def gas(trace: Trace, found: Gas, node: str) -> None:
    if not found.method:
        trace.add("gas", gas=found.used, source="the transaction's own limit (gas_limit_estimation is off)")
    else:
        trace.add(
            "gas",
            gas=found.used,
            source=found.method,
            limit_needed=found.limit,
            node=node,
            asked=found.asked,
        )


def fee_model(trace: Trace, name: str, charge: Charge) -> None:
    trace.add("fee model", name=name, charged_gas=charge.gas, **charge.parts, **charge.facts)


def price(trace: Trace, found: Price, cap: int | UnsetType, used: int, seconds_old: float) -> None:
    trace.add(
        "price",
        **found.how,
        node=found.node,
        block=found.block,
        next_block_time=found.time,
        seconds_old=f"{max(seconds_old, 0.0):.3f}",
        per_gas_wei=found.per_gas,
        gas_price_cap_wei=shown_cap(cap),
        capped=used != found.per_gas,
        used_per_gas_wei=used,
    )


def native_fee(trace: Trace, charge: Charge, per_gas: int, blob_gas: int, blob_price: int, wei: int) -> None:
    if blob_gas:
        trace.add("blobs", blob_gas=blob_gas, blob_base_fee_wei=blob_price, fee_wei=blob_gas * blob_price)
    trace.add("native fee", gas=charge.gas, per_gas_wei=per_gas, **charge.parts, fee_wei=wei)


def rate(trace: Trace, token: FeeToken | None, found: Rate, now: float) -> None:
    if token is None:
        trace.add("rate", source="the native coin itself", conversion_rate="1")
        return
    trace.add(
        "rate",
        source=type(token.rate).__name__,
        block=found.block,
        rounds=[_round(answer, now) for answer in found.rounds],
        **found.facts,
        **_sequencer(found),
        before_margin=plain(found.before_margin),
        margin_percent=format(token.margin_percent, "f"),
        conversion_rate=plain(found.value),
    )


def _round(answer: Round, now: float) -> dict[str, Any]:
    feed, before = answer.feed, answer.before
    return {
        "feed": feed.address,
        "round": answer.round_id,
        "price": plain(answer.value),
        "updated_at": answer.updated_at,
        "seconds_old": f"{now - answer.updated_at:.0f}",
        "max_age": feed.max_age,
        "min_price": format(feed.min_price, "f"),
        "max_price": format(feed.max_price, "f"),
        "price_before": "not known" if before is None else plain(scaled(before[0], answer.decimals)),
        "max_move_percent": format(feed.max_move_percent, "f"),
        **({"changed": answer.change} if answer.change else {}),
    }


def _sequencer(found: Rate) -> dict[str, Any]:
    if found.sequencer is None:
        return {}
    return {"sequencer_up": found.sequencer.is_up, "sequencer_since": found.sequencer.since}


def later_fees(trace: Trace, horizon: int, fees: dict[str, str]) -> None:
    assumed = "the same gas, tip, data fee and rate"
    trace.add("mined later", **fees, covered_full_blocks=horizon, assumed=assumed)


def result(trace: Trace, exact: Decimal, decimals: int, estimate: FeeEstimate) -> None:
    trace.add("rounding", exact_fee=plain(exact), decimals=decimals, rounded_up=estimate.estimated_fee)
    trace.add("result", conversion_rate=estimate.conversion_rate, estimated_fee=estimate.estimated_fee)
