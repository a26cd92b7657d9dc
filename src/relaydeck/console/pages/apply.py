"""Apply: a file is pasted, its plan is shown, and exactly that plan is applied.

The page with the plan carries the file to the next one without showing it: it may contain secrets. It is sealed with a
key of the session, which only the cookie and this service know.

Reading a large file and rendering its plan run in a thread: each takes longer than other requests should wait.
"""

import asyncio
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Sequence
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from relaydeck.bounded_toml import parse_toml
from relaydeck.console.admin_calls import Json
from relaydeck.console.confirmation import worded_steps
from relaydeck.console.page_request import PageRequest, get, post
from relaydeck.console.rendering import download
from relaydeck.console.request import reason_of
from relaydeck.errors import BadRequest, Forbidden, MistakenDocument, PlanChanged, RequestError
from relaydeck.http.pipeline import Reply
from relaydeck.roles import requirement
from relaydeck.secret import Secret
from relaydeck.store.sealing import decrypt, derived_key, encrypt

_INFO = b"relaydeck console carried text 2"


@get("/apply", shows=())
async def show(request: PageRequest) -> Reply:
    return request.page("apply.html", problem="", mistakes=[])


@get("/export", "export")
async def export(request: PageRequest) -> Reply:
    """The apply file of all records, or of one, to download. A session that only looks may see pages, and no file."""
    if not request.operator.may_export:
        raise Forbidden(requirement("view"))
    chosen: Json = {each: request.query[each] for each in ("resource", "record") if request.query.get(each)}
    found = await request.call("export", **chosen)
    name = re.sub(r"[^A-Za-z0-9-]+", "-", "-".join(chosen.values())) or "relaydeck"
    return download(f"{name}.toml", b"application/toml; charset=utf-8", found.data["toml"])


@post("/apply", "apply")
async def plan(request: PageRequest) -> Reply:
    form = request.form
    text, prune = form.get("file", "").replace("\r\n", "\n"), bool(form.get("prune"))
    return await plan_page(request, text, prune=prune)


async def plan_page(
    request: PageRequest,
    text: str,
    *,
    prune: bool,
    changed: PlanChanged | None = None,
    problem: str = "",
    together: Sequence[int] = (),
) -> Reply:
    """`together`: the audit entries of a change that is planned back in part."""
    try:
        document = await asyncio.to_thread(_document, text, prune=prune, plan_only=True)
        found = await request.call("apply", document=document)
    except RequestError as error:
        return await _refused(request, error)
    removals = Counter(step["kind"] for step in found.data["steps"] if step["action"] == "remove")
    sealed = carry(request.operator.secret, f"{removals.total()}\n{text}")
    status = 412 if changed else 400 if problem else 200
    shown = found.data | {"steps": await worded_steps(request, found.data["steps"])}
    values = {"plan": shown, "sealed": sealed, "prune": prune, "changed": changed, "problem": problem}
    values |= {"removals": removals, "together": together}
    return await asyncio.to_thread(request.page, "apply_plan.html", status=status, **values)


@post("/apply/plan", "apply")
async def apply(request: PageRequest) -> Reply:
    form = request.form
    removals, _, text = carried(request.operator.secret, form.get("sealed", "")).partition("\n")
    prune = bool(form.get("prune"))
    if removals not in ("0", form.get("removals", "").strip()):
        return await plan_page(request, text, prune=prune, problem="Type the number of removals exactly.")
    try:
        document = await asyncio.to_thread(_document, text, prune=prune, plan_only=False)
        done = await request.call("apply", document=document, if_match=f'"{form.get("revision", "")}"')
    except PlanChanged as changed:
        return await plan_page(request, text, prune=prune, changed=changed)
    except RequestError as error:
        return await _refused(request, error)
    shown = done.data | {"steps": await worded_steps(request, done.data["steps"])}
    return await asyncio.to_thread(request.page, "apply_done.html", plan=shown)


def _document(text: str, *, prune: bool, plan_only: bool) -> dict[str, Any]:
    """Raises BadRequest. The message of the TOML reader names a place, and no value."""
    try:
        document = parse_toml(text)
    except ValueError as error:
        raise BadRequest(f"it is not TOML: {error}") from None
    return {"document": document, "prune": prune, "plan_only": plan_only}


async def _refused(request: PageRequest, error: RequestError) -> Reply:
    mistakes = error.members["mistakes"] if isinstance(error, MistakenDocument) else []
    problem = "" if mistakes else reason_of(error)
    return await asyncio.to_thread(request.page, "apply.html", status=error.status, problem=problem, mistakes=mistakes)


def _cipher(session: Secret) -> AESGCM:
    return AESGCM(derived_key(session.reveal().encode(), _INFO))


def carry(session: Secret, text: str) -> str:
    return urlsafe_b64encode(encrypt(_cipher(session), text.encode())).decode()


def carried(session: Secret, sealed: str) -> str:
    """Raises BadRequest when the text was not sealed in this session."""
    try:
        return decrypt(_cipher(session), urlsafe_b64decode(sealed.encode())).decode()
    except (ValueError, InvalidTag):
        raise BadRequest("the file does not belong to this session: paste it again") from None
