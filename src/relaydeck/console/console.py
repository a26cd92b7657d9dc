"""Everything below `/console`: finds the page of a request, checks who sent it, and renders refusals."""

import msgspec

from relaydeck.console.guard import require_form_token, require_same_origin
from relaydeck.console.live import LiveUpdates, StreamLimit
from relaydeck.console.request import Fields, read_form, with_form
from relaydeck.console.responses import ROOT, asset, event_stream
from relaydeck.console.router import Router
from relaydeck.console.services import Sources
from relaydeck.console.sign_in import SignIn
from relaydeck.console.visitor import Visitor
from relaydeck.errors import RequestError
from relaydeck.http.pipeline import Call, Reply

_MOST_BYTES = 512 * 1024  # of a form; that of an apply file may be as large as any body


class Console:
    def __init__(self, sources: Sources) -> None:
        self._max_body = sources.settings.max_body_bytes
        self._live = LiveUpdates(sources.revision, sources.is_stopping)
        self._streams = StreamLimit(sources.settings.console_streams)
        self._sign_in = SignIn(sources)
        self._router = Router(sources)

    def close(self) -> None:
        self._live.close()
        self._router.close()

    async def answer(self, call: Call) -> Reply:
        """`call.argument` is the method and the path. A refusal becomes a page; a failure is left to the pipeline."""
        method, _, target = call.argument.partition(" ")
        path = target.removeprefix(ROOT)
        if path.startswith("/assets/"):
            return asset(path.rpartition("/")[2])
        return await self._answer(call, "GET" if method == "HEAD" else method, path)

    async def _answer(self, call: Call, method: str, path: str) -> Reply:
        visitor = None
        try:
            if (reply := await self._sign_in.answer(call, method, path)) is not None:
                return reply
            visitor = await self._sign_in.visitor(call)
            if visitor is None:
                return self._sign_in.ask(call, method)
            return self._admitted(_logged(await self._show(call, method, path, visitor), visitor), visitor)
        except RequestError as error:
            if error.status >= 500:
                raise
            return self._refusal(call, method, path, visitor, error)

    async def _show(self, call: Call, method: str, path: str, visitor: Visitor) -> Reply:
        if method != "GET":
            return await self._submit(call, method, path, visitor)
        if path == "/live":
            return event_stream(self._live.open())
        page, visit = self._router.open(visitor, call, method, path)
        return await page(visit)

    async def _submit(self, call: Call, method: str, path: str, visitor: Visitor) -> Reply:
        """The form is read after everything that can refuse it by its headers."""
        require_same_origin(call.headers)
        if path == "/sign-out":
            require_form_token(await self._read_form(call, path), visitor.secret)
            return await self._sign_in.sign_out(call, visitor.secret)
        page, visit = self._router.open(visitor, call, method, path)
        visit.require_change()
        visit = visit._replace(fields=await self._read_form(visit.call, path))
        require_form_token(visit.fields, visitor.secret)
        return await page(visit)

    async def _read_form(self, call: Call, path: str) -> Fields:
        most = self._max_body if path.startswith("/apply") else min(self._max_body, _MOST_BYTES)
        return await read_form(await with_form(call, most))

    def _admitted(self, reply: Reply, visitor: Visitor) -> Reply:
        """The reply; its stream, if it has one, counts against the session. Raises TooManyRequests."""
        if reply.stream is None:
            return reply
        return msgspec.structs.replace(reply, stream=self._streams.admit(visitor.secret, reply.stream))

    def _refusal(self, call: Call, method: str, path: str, visitor: Visitor | None, error: RequestError) -> Reply:
        if visitor is None:
            reply = self._sign_in.refuse(call, error)
        else:
            reply = _logged(self._router.refuse(visitor, call, method, path, error), visitor)
        return msgspec.structs.replace(reply, headers=(*reply.headers, *error.headers))


def _logged(reply: Reply, visitor: Visitor) -> Reply:
    """The access log names the token of the session, which the pipeline does not know."""
    return msgspec.structs.replace(reply, logged_name=visitor.credential.logged_name)
