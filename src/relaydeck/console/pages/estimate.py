"""The fee estimator: a transaction is pasted, and every step of its estimate is shown."""

from typing import Any

from relaydeck.console.request import reason_of
from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.errors import RequestError
from relaydeck.http.pipeline import Reply


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
    return await _page(visit, form, report=found.data)


async def _page(visit: Visit, form: dict[str, str], status: int = 200, **values: Any) -> Reply:
    listed = await visit.admin.read("relayers", per_page="200", order="newest")
    shown: dict[str, Any] = {"report": None, "problem": ""} | values
    relayers = [each["id"] for each in listed.data]
    return visit.page("estimate.html", status=status, form=form, relayers=relayers, **shown)
