"""Access tokens: created (shown once), given a new secret, and revoked."""

from typing import Any

from relaydeck.console.admin_calls import Json
from relaydeck.console.page_request import PageRequest, get, post
from relaydeck.console.rendering import redirect
from relaydeck.console.request import reason_of
from relaydeck.errors import BadRequest, RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.roles import Role


@get("/tokens", "list_tokens", shows=("tokens",))
async def show_list(request: PageRequest, status: int = 200, **values: Any) -> Reply:
    listed = await request.listed("list_tokens", order="newest")
    defaults: dict[str, Any] = {"created": None, "problem": "", "form": {}, "kinds": Role}
    return request.page("tokens.html", status=status, **listed, **defaults | values)


@post("/tokens", "create_token")
async def create(request: PageRequest) -> Reply:
    """The token is on the page that answers the form, and nowhere else."""
    form = request.form
    try:
        document = _document(form)
        created = await request.call("create_token", document=document)
    except RequestError as error:
        return await show_list(request, error.status, problem=reason_of(error), form=form)
    return await show_list(request, 201, created=created.data)


def _document(form: dict[str, str]) -> Json:
    """Raises BadRequest."""
    given = {name: text.strip() for name, text in form.items() if text.strip()}
    document: Json = {name: given[name] for name in ("name", "kind", "expires", "purpose") if name in given}
    scope: Json = {name: _parts(given[name]) for name in ("relayers", "networks") if name in given}
    if "labels" in given:
        scope["labels"] = dict(each.partition("=")[::2] for each in _parts(given["labels"]))
    if not given.get("rate", "0").isdecimal():
        raise BadRequest("the rate must be a number of requests per second")
    others = {"scope": scope, "addresses": _parts(given.get("addresses", "")), "rate": int(given.get("rate", "0"))}
    return document | {name: value for name, value in others.items() if value}


def _parts(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


@post("/tokens/{id}/rotate", "rotate_token")
async def rotate(request: PageRequest) -> Reply:
    """The new secret is on the page that answers the form, and nowhere else."""
    overlap = request.form.get("overlap", "").strip()
    try:
        rotated = await request.call(
            "rotate_token", request.identifier, document={"overlap": overlap} if overlap else {}
        )
    except BadRequest as error:
        return request.page("token_revoke.html", status=error.status, name=request.identifier, problem=reason_of(error))
    return await show_list(request, 201, created=rotated.data)


@get("/tokens/{id}/revoke", "list_tokens")
async def show_revoke(request: PageRequest) -> Reply:
    return request.page("token_revoke.html", name=request.identifier, problem="")


@post("/tokens/{id}/revoke", "revoke_token")
async def revoke(request: PageRequest) -> Reply:
    await request.call("revoke_token", request.identifier)
    return redirect("/tokens?done=revoked")
