"""The fee estimator: a transaction is pasted, and its estimate is shown in sentences, with every step."""

import re
from collections.abc import Iterator
from typing import Any

from markupsafe import Markup

from relaydeck.console.formats import coins, fact, gwei, name
from relaydeck.console.page_request import PageRequest, get, post
from relaydeck.console.request import reason_of
from relaydeck.errors import RequestError
from relaydeck.fees import errors
from relaydeck.http.pipeline import Reply

_PRICE = re.compile("per_gas_wei$|gas_price_cap_wei$|base_fee(_wei)?$|^priority_fee$")  # Wei for one unit of gas


_OF_GAS = ("step", "gas", "per_gas_wei", "fee_wei")
_WORDS = {
    errors.InvalidParams.code: "the transaction or the fee token cannot be used",
    errors.InternalFailure.code: "the service itself failed",
    errors.NodeUnreachable.code: "no node answers",
    errors.ExecutionReverted.code: "the transaction would fail when it is executed",
    errors.ReceiverNotWhitelisted.code: "the policy of the relayer does not allow this receiver",
    errors.NoFreshRate.code: "there is no fresh rate for the fee token",
    errors.NodeRefused.code: "a node refused to answer",
    errors.FeeDataDisputed.code: "the nodes disagree",
}


@get("/estimate", shows=())
async def show(request: PageRequest) -> Reply:
    return await _page(request, {"relayer": request.query.get("relayer", "")})


@post("/estimate", "explain_estimate")
async def estimate(request: PageRequest) -> Reply:
    form = request.form
    asked = {"transaction": form.get("transaction", "").strip()}
    if form.get("token", "").strip():
        asked["token"] = form["token"].strip()
    try:
        found = await request.call("explain_estimate", form.get("relayer", ""), document=asked)
    except RequestError as error:
        return await _page(request, form, error.status, problem=reason_of(error))
    return await _page(request, form, report=await _shown(request, found.data))


async def _shown(request: PageRequest, report: dict[str, Any]) -> dict[str, Any]:
    """The report with its result apart, and with its amounts in whole coins."""
    steps = report["steps"]
    if not steps:
        return {"steps": [], "error": _in_words(report), "sentences": [], "result": None}
    inputs, last = steps[0], steps[-1]
    symbol = (await request.call("get_network", inputs["network"])).data["native_symbol"]
    return {
        "steps": [(step["step"], facts_of(step, symbol)) for step in steps],
        "error": _in_words(report),
        "sentences": list(sentences({step["step"]: step for step in steps}, symbol)),
        "result": last | {"token": inputs["fee_token"], "symbol": symbol} if last["step"] == "result" else None,
    }


def _in_words(report: dict[str, Any]) -> dict[str, Any] | None:
    error = report.get("error")
    return error and error | {"words": _WORDS.get(error["code"], error["message"])}


def sentences(steps: dict[str, dict[str, Any]], symbol: str) -> Iterator[Markup]:
    """How the fee came about. A sum is only shown if it is the fee that was computed."""
    fee, price, gas, rate = (steps.get(name) for name in ("native fee", "price", "gas", "rate"))
    if fee is None or price is None:
        return
    yield _sum(fee, price, int(steps.get("blobs", {}).get("fee_wei", 0)), symbol)
    if gas is not None:
        asked = str(gas["source"]).startswith("eth_")
        yield Markup("The gas is {}.").format(
            Markup("what {} measured with {}").format(name(gas["node"]), gas["source"]) if asked else gas["source"]
        )
    yield Markup("The price is from block {:,}, read from {} {} s before.").format(
        int(price["block"]), name(price["node"]), price["seconds_old"]
    )
    if price["capped"]:
        yield Markup("The gas price cap of the relayer lowers it from {} to {}.").format(
            gwei(price["per_gas_wei"]), gwei(price["used_per_gas_wei"])
        )
    if rate is not None and "margin_percent" in rate and "rounding" in steps:
        token, rounding = name(steps["inputs"]["fee_token"]), steps["rounding"]
        yield Markup("1 {} is {} {}, with a margin of {} %: {} {}, rounded up at {} decimals to {} {}.").format(
            *(name(symbol), rate["conversion_rate"], token, rate["margin_percent"], rounding["exact_fee"], token),
            *(rounding["decimals"], rounding["rounded_up"], token),
        )


def _sum(fee: dict[str, Any], price: dict[str, Any], blobs: int, symbol: str) -> Markup:
    gas, per_gas, total = int(fee["gas"]), int(fee["per_gas_wei"]), int(fee["fee_wei"])
    base, tip = price.get("base_fee"), price.get("priority_fee")
    parts = {part.removesuffix("_wei").replace("_", " "): int(fee[part]) for part in fee if part not in _OF_GAS}
    parts |= {"blobs": blobs} if blobs else {}
    if gas * per_gas + sum(parts.values()) != total:
        return Markup("The fee is {}.").format(coins(total, symbol))
    each = gwei(per_gas)
    if base is not None and tip is not None and int(base) + int(tip) == per_gas:
        each = Markup("(base fee {} + tip {})").format(gwei(base, ""), gwei(tip))
    more = Markup("").join(Markup(" + {} {}").format(part, coins(value, symbol)) for part, value in parts.items())
    return Markup("{:,} gas × {}{} = {}").format(gas, each, more, coins(total, symbol))


def facts_of(step: dict[str, Any], symbol: str) -> list[tuple[str, Markup]]:
    """The facts of a step, each with its label."""
    return [_written(label, value, symbol) for label, value in step.items() if label != "step" and value is not None]


def _written(field: str, value: Any, symbol: str) -> tuple[str, Markup]:
    label = field.removesuffix("_wei").replace("_", " ")
    if _PRICE.search(field):
        return label, gwei(value)
    return label, coins(value, symbol) if field.endswith("_wei") else fact(value)


async def _page(request: PageRequest, form: dict[str, str], status: int = 200, **values: Any) -> Reply:
    shown: dict[str, Any] = {"report": None, "problem": ""} | values
    relayers = await request.names("relayers")
    return request.page("estimate.html", status=status, form=form, relayers=relayers, **shown)
