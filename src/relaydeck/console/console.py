"""Everything below `/console`: finds the page of a request, checks who sent it, and renders refusals."""

from functools import partial

import msgspec

from relaydeck.api.operations import SCOPED
from relaydeck.console.admin_calls import Operator, Proposed
from relaydeck.console.guard import require_form_token, require_same_origin
from relaydeck.console.live import LatestChanges, StreamLimit, live_updates, shown_tables
from relaydeck.console.page_request import PAGES, Menu, PageRequest, RegisteredPage, Services
from relaydeck.console.pages import MENU
from relaydeck.console.rendering import ROOT, asset, event_stream, path_to, redirect
from relaydeck.console.request import Fields, query_of, read_form
from relaydeck.console.sign_in import SignIn
from relaydeck.credential import Credential
from relaydeck.errors import RequestError, UnknownPath, WrongMethod
from relaydeck.http.pipeline import Call, Reply

_MOST_BYTES = 512 * 1024  # of a form; that of an apply file may be as large as any body


class Console:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._max_body = services.settings.max_body_bytes
        self._changes = LatestChanges(services.revision, services.read, services.is_stopping)
        self._streams = StreamLimit(services.settings.console_streams)
        self._sign_in = SignIn(services)

    async def close(self) -> None:
        await self._sign_in.close()
        self._services.verification.close()
        for _, each in self._services.backtests:
            each.close()

    async def bearer(self, token: bytes) -> Credential:
        """The person whose session it is, in a request to the API. Raises Unauthorized."""
        return await self._sign_in.bearer(token)

    async def answer(self, call: Call) -> Reply:
        """`call.argument` is the method and the path. A refusal becomes a page; a failure is left to the pipeline."""
        method, _, target = call.argument.partition(" ")
        path = target.removeprefix(ROOT)
        if path.startswith("/assets/"):
            return asset(path.rpartition("/")[2])
        return await self._answer(call, "GET" if method == "HEAD" else method, path)

    async def _answer(self, call: Call, method: str, path: str) -> Reply:
        operator = None
        try:
            if (reply := await self._sign_in.answer(call, method, path)) is not None:
                return reply
            operator = await self._sign_in.operator(call)
            if operator is None:
                return await self._sign_in.ask(call, method, path)
            show = self._show if method == "GET" else self._submit
            return self._admitted(_logged(await show(call, method, path, operator), operator), operator)
        except RequestError as error:
            if error.status >= 500:
                raise
            return self._refusal(call, method, path, operator, error)

    async def _show(self, call: Call, method: str, path: str, operator: Operator) -> Reply:
        if path == "/live":
            shows = shown_tables(query_of(call).get("shows", ""))
            changed, first = partial(self._changes.revision, shows), await self._changes.first(shows)
            return event_stream(live_updates(changed, self._services.is_stopping, self._changes.wait, first))
        page, request = self._open(call, method, path, operator)
        operator.require(page.operation)
        return await page.answer(request)

    async def _submit(self, call: Call, method: str, path: str, operator: Operator) -> Reply:
        """The form is read after everything that can refuse it by its headers."""
        require_same_origin(call.headers)
        if path == "/sign-out":
            await self._read_form(call, path, operator)
            return await self._sign_in.sign_out(call, operator.secret)
        page, request = self._open(call, method, path, operator)
        operator.require(page.operation)
        try:
            return await page.answer(request._replace(fields=await self._read_form(call, path, operator)))
        except Proposed as proposed:
            seen = path_to("proposals", proposed.proposal) if operator.may("get_proposal") else ""
            return redirect(f"{seen}?done=proposed")

    async def _read_form(self, call: Call, path: str, operator: Operator) -> Fields:
        most = self._max_body if path.startswith("/apply") else min(self._max_body, _MOST_BYTES)
        fields = await read_form(call, most, has_session=True)
        require_form_token(fields, operator.secret)
        return fields

    def _open(self, call: Call, method: str, path: str, operator: Operator) -> tuple[RegisteredPage, PageRequest]:
        """The page, and the request to it. Raises UnknownPath, WrongMethod, BadRequest."""
        page, argument = _find(method, path)
        return page, self._request(operator, call, path)._replace(
            argument=argument, query=query_of(call), shows=page.shows
        )

    def _request(self, operator: Operator, call: Call, path: str) -> PageRequest:
        return PageRequest(
            operator, self._services, _menu_of(operator), path, "", call.headers, {}, self._services.revision()
        )

    def _admitted(self, reply: Reply, operator: Operator) -> Reply:
        """The reply; its stream, if it has one, counts against the session. Raises TooManyRequests."""
        if reply.stream is None:
            return reply
        return msgspec.structs.replace(reply, stream=self._streams.admit(operator.secret, reply.stream))

    def _refusal(self, call: Call, method: str, path: str, operator: Operator | None, error: RequestError) -> Reply:
        """Without the query of the request, which may be what is refused."""
        if operator is None:
            reply = self._sign_in.refuse(call, error)
        else:
            reply = self._request(operator, call, path).refusal(error, is_change=method != "GET")
            reply = _logged(reply, operator)
        return msgspec.structs.replace(reply, headers=(*reply.headers, *error.headers))


def _menu_of(operator: Operator) -> Menu:
    """Without what is about the whole service, for a session that does not see everything."""
    if operator.visible is None:
        return MENU
    return tuple(tuple(each for each in group if PAGES[each[0]]["GET"].operation.name in SCOPED) for group in MENU)


def _find(method: str, path: str) -> tuple[RegisteredPage, str]:
    """The page and the identifier in its path. Raises UnknownPath, WrongMethod."""
    template, argument = path, ""
    if path not in PAGES:
        match path.split("/"):
            case ["", resource, argument, *verb] if argument:
                template = "/".join(["", resource, "{id}", *verb])
    methods = PAGES.get(template)
    if methods is None:
        raise UnknownPath("there is no such page")
    if method not in methods:
        raise WrongMethod(", ".join(methods))
    return methods[method], argument


def _logged(reply: Reply, operator: Operator) -> Reply:
    """The access log names the token of the session, which the pipeline does not know."""
    return msgspec.structs.replace(reply, logged_name=operator.logged_name)
