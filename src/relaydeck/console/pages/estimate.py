"""The fee estimator: a transaction is pasted, and every step of its estimate is shown."""

import re
from typing import Any

from markupsafe import Markup

from relaydeck.console.formats import coins, fact, gwei
from relaydeck.console.request import reason_of
from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.errors import RequestError
from relaydeck.http.pipeline import Reply

_PRICE = re.compile("per_gas_wei$|gas_price_cap_wei$|base_fee(_wei)?$|^priority_fee$")  # Wei for one unit of gas


def pages(_services: PageServices) -> Pages:
    return {"/estimate": {"GET": show, "POST": estimate}}


async def show(visit: Visit) -> Reply:
    return await _page(visit, {"relayer": visit.query.get("relayer", "")})


async def estimate(visit: Visit) -> Reply:
    form = visit.form
    asked = {"transaction": form.get("transaction", "").strip()}
    if form.get("token", "").strip():
        asked["token"] = form["token"].strip()
    try:
        found = await visit.admin.change("POST", "relayers", form.get("relayer", ""), "estimate", document=asked)
    except RequestError as error:
        return await _page(visit, form, error.status, problem=reason_of(error))
    return await _page(visit, form, report=await _shown(visit, found.data))


async def _shown(visit: Visit, report: dict[str, Any]) -> dict[str, Any]:
    """The report with its result apart, and with its amounts in whole coins."""
    steps = report["steps"]
    if not steps:
        return {"steps": [], "error": report.get("error"), "result": None}
    inputs, last = steps[0], steps[-1]
    symbol = (await visit.admin.read("networks", inputs["network"])).data["native_symbol"]
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


async def _page(visit: Visit, form: dict[str, str], status: int = 200, **values: Any) -> Reply:
    listed = await visit.admin.read("relayers", per_page="200", order="newest")
    shown: dict[str, Any] = {"report": None, "problem": ""} | values
    relayers = [each["id"] for each in listed.data]
    return visit.page("estimate.html", status=status, form=form, relayers=relayers, **shown)
