"""Access tokens: created (shown once), given a new secret, and revoked."""

import re
from typing import Any

from relaydeck.api.records import TokenRequest
from relaydeck.console.admin_calls import Json
from relaydeck.console.page_request import PageRequest, get, post
from relaydeck.console.rendering import redirect
from relaydeck.console.request import reason_of, whole_number
from relaydeck.credentials.tokens import LIFETIMES, lifetime_seconds
from relaydeck.errors import BadRequest, RecordExists, RequestError
from relaydeck.fields import fields_of
from relaydeck.http.pipeline import Reply
from relaydeck.identifiers import identifier_problem
from relaydeck.provisioning.reader import Reader
from relaydeck.roles import ROLE_NAMES, Role
from relaydeck.settings.values import address_ranges

_ENTER = {  # in place of what the interface says
    "labels": "labels such as team=payments",
    "rate": "a whole number of requests per second, such as 50",
}


@get("/tokens", "list_tokens", shows=("tokens",))
async def show_list(request: PageRequest, status: int = 200, **values: Any) -> Reply:
    listed = await request.listed("list_tokens", order="newest")
    defaults: dict[str, Any] = {"created": None, "problem": "", "wrong": {}, "form": {}, "kinds": Role}
    return request.page("tokens.html", status=status, **listed, **defaults | values)


@post("/tokens", "create_token")
async def create(request: PageRequest) -> Reply:
    """The token is on the page that answers the form, and nowhere else."""
    form = request.form
    document = _document(form)
    if wrong := _mistakes(document, form):
        return await show_list(request, 400, wrong=wrong, form=form)
    try:
        created = await request.call("create_token", document=document)
    except RecordExists as error:
        return await show_list(request, error.status, wrong={"name": "Is the name of another token."}, form=form)
    except RequestError as error:
        return await show_list(request, error.status, problem=reason_of(error), form=form)
    return await show_list(request, 201, created=created.data)


def _document(form: dict[str, str]) -> Json:
    """A rate that is no whole number is left for the check of the document to refuse."""
    given = {name: text.strip() for name, text in form.items() if text.strip()}
    document: Json = {name: given[name] for name in ("name", "kind", "expires", "purpose") if name in given}
    scope: Json = {name: _parts(given[name]) for name in ("relayers", "networks") if name in given}
    if "labels" in given:
        scope["labels"] = dict(each.partition("=")[::2] for each in _parts(given["labels"]))
    rate = whole_number(given.get("rate", "0"))
    others: Json = {"scope": scope, "addresses": _parts(given.get("addresses", ""))}
    others["rate"] = given["rate"] if rate is None else rate
    return document | {name: value for name, value in others.items() if value}


def _mistakes(document: Json, form: dict[str, str]) -> dict[str, str]:
    """What is wrong, by field of the form, in the words of apply files: all of it, not only the first."""
    reader, found = Reader(None), dict[str, str]()
    reader.values(document, "", fields_of(TokenRequest))
    for place, problem in reader.mistakes:
        name = re.split(r"[.\[]", place.removeprefix(".").removeprefix("scope."))[0]
        found.setdefault(name, _sentence(problem) if form.get(name, "").strip() else "Fill this in.")
    found |= {name: f"Enter {words}." for name, words in _ENTER.items() if name in found}
    if document.get("kind", Role.API) not in ROLE_NAMES:
        found["kind"] = f"Choose one of {', '.join(ROLE_NAMES)}."
    if lifetime_seconds(document.get("expires", "1d")) is None:
        found["expires"] = f"Enter {LIFETIMES}."
    for name in ("relayers", "networks"):
        problems = filter(None, map(identifier_problem, document.get("scope", {}).get(name, ())))
        if problem := next(problems, ""):
            found[name] = _sentence(problem)
    try:
        address_ranges(form.get("addresses", ""))
    except ValueError as error:
        found["addresses"] = f"Enter {error}."
    return found


def _sentence(problem: str) -> str:
    return f"{problem[0].upper()}{problem[1:]}."


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


@get("/tokens/{id}/revoke", "list_tokens", shows=())
async def show_revoke(request: PageRequest) -> Reply:
    return request.page("token_revoke.html", name=request.identifier, problem="")


@post("/tokens/{id}/revoke", "revoke_token")
async def revoke(request: PageRequest) -> Reply:
    await request.call("revoke_token", request.identifier)
    return redirect("/tokens?done=revoked")
