"""Access tokens: created (shown once) and revoked."""

from typing import Any

from relaydeck.console.forms import with_problem
from relaydeck.console.paging import PER_PAGE, Pager, kept, page_number
from relaydeck.console.responses import redirect
from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.credentials.kinds import TokenKind
from relaydeck.errors import RequestError
from relaydeck.http.pipeline import Reply

_FILTERS = ("name", "kind", "state", "order")


def pages(_services: PageServices) -> Pages:
    return {
        "/tokens": {"GET": show_list, "POST": create},
        "/tokens/{id}/revoke": {"GET": show_revoke, "POST": revoke},
    }


async def show_list(visit: Visit) -> Reply:
    return await _page(visit)


async def _page(visit: Visit, status: int = 200, **values: Any) -> Reply:
    query, number = kept(visit.query, *_FILTERS), page_number(visit.query)
    shown = {"order": "newest"} | query
    found = await visit.admin.read("tokens", page=str(number), per_page=str(PER_PAGE), **shown)
    defaults: dict[str, Any] = {"created": None, "problem": "", "form": {}}
    pager = Pager(number, found.total, query)
    return visit.page(
        "tokens.html", status=status, tokens=found.data, pager=pager, kinds=TokenKind, **defaults | values
    )


async def create(visit: Visit) -> Reply:
    """The token is on the page that answers the form, and nowhere else."""
    form = visit.form
    document = {name: form[name].strip() for name in ("name", "kind", "expires") if form.get(name, "").strip()}
    try:
        created = await visit.admin.change("POST", "tokens", document=document)
    except RequestError as error:
        return await _page(visit, error.status, problem=with_problem([], error)[1], form=form)
    return await _page(visit, 201, created=created.data)


async def show_revoke(visit: Visit) -> Reply:
    return visit.page("token_revoke.html", name=visit.identifier)


async def revoke(visit: Visit) -> Reply:
    await visit.admin.change("DELETE", "tokens", visit.identifier)
    return redirect("/tokens?done=revoked")
