"""The fee estimator: a transaction is pasted, and every step of its estimate is shown."""

import re
from typing import Any

from markupsafe import Markup

from relaydeck.console.formats import coins, fact, gwei
from relaydeck.console.page_request import PageRequest, get, post
from relaydeck.console.request import reason_of
from relaydeck.errors import RequestError
from relaydeck.http.pipeline import Reply

_PRICE = re.compile("per_gas_wei$|gas_price_cap_wei$|base_fee(_wei)?$|^priority_fee$")  # Wei for one unit of gas


@get("/estimate")
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
        return {"steps": [], "error": report.get("error"), "result": None}
    inputs, last = steps[0], steps[-1]
    symbol = (await request.call("get_network", inputs["network"])).data["native_symbol"]
    return {
        "steps": [(step["step"], facts_of(step, symbol)) for step in steps],
        "error": report.get("error"),
        "result": last | {"token": inputs["fee_token"], "symbol": symbol} if last["step"] == "result" else None,
    }


def facts_of(step: dict[str, Any], symbol: str) -> list[tuple[str, Markup]]:
    """The facts of a step, each with its label."""
    return [_written(name, value, symbol) for name, value in step.items() if name != "step" and value is not None]


def _written(name: str, value: Any, symbol: str) -> tuple[str, Markup]:
    label = name.removesuffix("_wei").replace("_", " ")
    if _PRICE.search(name):
        return label, gwei(value)
    return label, coins(value, symbol) if name.endswith("_wei") else fact(value)


async def _page(request: PageRequest, form: dict[str, str], status: int = 200, **values: Any) -> Reply:
    listed = await request.call("list_relayers", per_page="200", order="newest")
    shown: dict[str, Any] = {"report": None, "problem": ""} | values
    relayers = [each["id"] for each in listed.data]
    return request.page("estimate.html", status=status, form=form, relayers=relayers, **shown)
