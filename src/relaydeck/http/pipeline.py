"""The pipeline that every request passes: route, credential, rate limit, body, operation, response, record.

The order of the code is the order of refusals: unknown path (404) or wrong method (405), credential (401, or 403
where the route declares it), rate (429), size of the body (413), content (400), then the operation (404, 409).
"""

import asyncio
import re
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import TypeVar

import msgspec

from relaydeck import errors
from relaydeck.credential import Credential, FindCredential, Unverified
from relaydeck.http.access_log import ANONYMOUS, AccessLog
from relaydeck.http.body import BodyReader, IncomingBody
from relaydeck.http.envelope import failure_body
from relaydeck.http.ratelimit import Allowance, LimitDecision, RateLimiter, allowance_of
from relaydeck.http.request import Peer, Receive, Scope, Send
from relaydeck.http.shared_limits import SharedLimiter
from relaydeck.log import Log
from relaydeck.roles import Permission, requirement
from relaydeck.scope import Visible

Headers = list[tuple[bytes, bytes]]
ReadBody = Callable[..., Awaitable[bytes]]

JSON = (b"content-type", b"application/json")
_CLOSE = (b"connection", b"close")
_PRINTABLE = bytes(byte if 0x20 <= byte < 0x7F else 0x3F for byte in range(256))  # in a header, other bytes become `?`
_WITHOUT_BODY = frozenset({"GET", "HEAD"})  # a body has no meaning there (RFC 9110) and is not read
_REVISION = b"relaydeck-revision"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")


class Call(msgspec.Struct, frozen=True, gc=False):
    """A request as an operation receives it."""

    argument: str  # the identifier in the path, still percent-encoded
    headers: dict[bytes, bytes]
    body: bytes
    query: bytes
    credential: Credential | None  # None: the route needs none
    scheme: str = "http"
    peer: Peer = None
    read_body: ReadBody | None = None  # where the route reads late: reads a body of at most so many bytes


class Reply(msgspec.Struct, frozen=True, gc=False):
    status: int
    body: bytes
    content_type: tuple[bytes, bytes] = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    stream: AsyncGenerator[bytes] | None = None  # sent part by part, before the body
    logged_name: str = ""  # of the credential, where the operation found it by itself


class Route(msgspec.Struct, frozen=True):
    """An operation. Exactly one of `page` and `answer` is given."""

    name: str
    permission: Permission | None  # what the credential must grant; None: the operation needs no credential
    limited: bool = False
    page: Callable[[bytes], bytes] | None = None  # query -> body, from the read model after it has caught up
    scoped_page: Callable[[Visible, bytes], Awaitable[bytes]] | None = None  # `page` for who does not see all
    answer: Callable[[Call], Awaitable[Reply]] | None = None
    denied: type[errors.RequestError] = errors.Unauthorized  # raised when the credential lacks the permission
    max_body: int = 0  # the largest body in bytes, where it is not that of every operation
    reads_late: bool = False  # the operation can refuse a request without its body, and reads the body by itself


Written = tuple[tuple[bytes, bytes], ...]
# Brings the read model up to date: at once (None), or after waiting, with headers that state its age.
CatchUp = Callable[[], Awaitable[Sequence[tuple[bytes, bytes]]] | None]
Find = Callable[[str, str, bytes], tuple[Route, str]]
UNMATCHED = Route("unmatched", None)


def with_head(methods: dict[str, Route]) -> dict[str, Route]:
    """The methods of a path, with HEAD beside GET: the server sends the same headers and leaves the body out."""
    head = {"HEAD": methods["GET"]} if "GET" in methods else {}
    return dict(sorted((methods | head).items()))


def sender_of(call: Call) -> Credential:
    """The credential of a request to a route that needs one."""
    assert call.credential is not None
    return call.credential


async def _reach_any(_revision: int) -> None:
    """Where nothing follows the database, there is nothing to wait for."""


class Pipeline:
    def __init__(
        self,
        *,
        exact_routes: dict[bytes, dict[str, tuple[Route, str]]],
        find_route: Find,
        find_credential: FindCredential,
        bodies: BodyReader,
        access_log: AccessLog,
        log: Log,
        catch_up: CatchUp = lambda: None,
        catch_up_with_tokens: CatchUp = lambda: None,
        reach: Callable[[int], Awaitable[None]] = _reach_any,
        limiter: RateLimiter | None = None,
        allowance: Allowance | None = None,
        shared_limiter: SharedLimiter | None = None,
        problem_paths: tuple[bytes, ...] = (),
        drain_mark: Callable[[], int] = int,
    ) -> None:
        self._exact_routes, self._find_route, self._find_credential = exact_routes, find_route, find_credential
        self._catch_up, self._catch_up_with_tokens, self._reach = catch_up, catch_up_with_tokens, reach
        self._limiter, self._shared_limiter, self._allowance = limiter, shared_limiter, allowance
        self._decision: LimitDecision = (False, 0, 0, 0)  # the last one, and its headers
        self._limit_headers: tuple[tuple[bytes, bytes], ...] = ()
        self._bodies, self._log, self._access_log, self._add_record = bodies, log, access_log, access_log.add
        self._problem_paths, self._drain_mark = problem_paths, drain_mark
        self._id_prefix = secrets.token_hex(6).encode() + b"-"
        self._id_numbers = count(1)
        self.busy: set[Peer] = set()  # clients with a credential that wait for a response

    def path_template(self, scope: Scope) -> str:
        """For traces: the path with placeholders. Empty when nothing is served at it."""
        try:
            found = (self._exact_routes.get(scope["raw_path"]) or {}).get(scope["method"])
            route, argument = found or self._find_route(scope["method"], scope["path"], scope["raw_path"])
        except errors.RequestError:
            return ""
        if route.name == "console" and argument:
            return "/console/{page}"
        return _template(scope["raw_path"], argument)

    # Steps are inline where a call would cost as much as the step itself.
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, now = time.perf_counter_ns(), time.time()
        listed = scope["headers"]
        headers = dict(listed)
        if len(headers) != len(listed):
            headers = _merged(listed)
        given = headers.get
        request_id = given(b"x-request-id")
        if request_id is None or not _REQUEST_ID.fullmatch(request_id):
            request_id = b"%b%x" % (self._id_prefix, next(self._id_numbers))
        extra: Headers = [(b"x-request-id", request_id)]
        route, token, reason, size, credential, stream = UNMATCHED, ANONYMOUS, "", 0, None, None
        peer, method = scope["client"], scope["method"]
        is_in_chunks = b"transfer-encoding" in headers
        incoming = IncomingBody(headers, receive) if is_in_chunks or b"content-length" in headers else None
        try:
            methods = self._exact_routes.get(scope["raw_path"])
            found = methods.get(method) if methods else None
            route, argument = found or self._find_route(method, scope["path"], scope["raw_path"])
            if is_in_chunks:
                _require_chunks(headers)
            if route.permission is not None:
                behind = self._catch_up() if route.page is not None else self._catch_up_with_tokens()
                if behind is not None:
                    extra += await behind
                try:
                    credential = self._find_credential(given(b"authorization"), now)
                except Unverified as unverified:
                    credential = await unverified.verify()
                token = credential.logged_name
                if route.permission not in credential.permissions:
                    raise route.denied(requirement(route.permission))
                allowance, limits = self._allowance, credential.limits
                if limits is not None:
                    if not limits.admits(self._access_log.client_of(peer, given(b"x-forwarded-for"))):
                        raise route.denied("the credential may not be used from this address")
                    if limits.rate:
                        allowance = allowance_of(limits.rate, limits.burst)
                if route.limited and allowance is not None and self._limiter is not None:
                    if self._shared_limiter is None:
                        decision = self._limiter.take(credential.seq, allowance)
                    else:
                        decision = await self._shared_limiter.take(credential, allowance)
                    if decision is not self._decision:  # a full bucket returns the same object each time
                        left = b"ratelimit", b'"default";r=%d;t=%d' % decision[1:3]
                        self._decision, self._limit_headers = decision, (allowance.policy, left)
                    extra += self._limit_headers
                    if not decision[0]:
                        raise errors.TooManyRequests(decision[3])
            if route.page is not None:
                if b"relaydeck-min-revision" in headers:
                    await self._reach(_revision(headers[b"relaydeck-min-revision"]))
                status, content_type = 200, JSON
                if credential is None or credential.visible is None:
                    body = route.page(scope["query_string"])
                else:
                    assert route.scoped_page is not None
                    body = await route.scoped_page(credential.visible, scope["query_string"])
            else:
                content, read_late = b"", None
                if credential is not None:
                    self.busy.add(peer)
                try:
                    if incoming is not None and method not in _WITHOUT_BODY:
                        if route.reads_late:
                            read_late = partial(self._bodies.read, incoming)
                        else:
                            content = await self._bodies.read(incoming, route.max_body, is_json=True)
                    if credential is not None and b"relaydeck-min-revision" in headers:
                        await self._reach(_revision(headers[b"relaydeck-min-revision"]))
                    assert route.answer is not None
                    query, scheme = scope["query_string"], scope["scheme"]
                    call = Call(argument, headers, content, query, credential, scheme, peer, read_late)
                    reply = await route.answer(call)
                finally:
                    self.busy.discard(peer)
                    if incoming is not None and incoming.room is not None:
                        incoming.room.leave(incoming.share)
                status, body, content_type, stream = reply.status, reply.body, reply.content_type, reply.stream
                extra += reply.headers
                token, size = reply.logged_name or token, len(content) if _has_written(reply) else 0
        except Exception as error:
            failure = self._failure_of(error, request_id)
            status, reason = failure.status, failure.reason
            extra += failure.headers
            if reason and status < 500:
                extra.append((b"relaydeck-reason", reason.encode("ascii", "replace")[:200].translate(_PRINTABLE)))
            as_problem = scope["raw_path"].startswith(self._problem_paths)
            content_type, body = failure_body(failure, request_id, as_problem=as_problem)
            _release_frames(error)
        extra.append(content_type)
        if self._drain_mark():
            extra.append(_CLOSE)
        await send({"type": "http.response.start", "status": status, "headers": extra})
        if stream is not None:
            await _send_stream(stream, receive, send)
        await send({"type": "http.response.body", "body": body})
        taken, forwarded = time.perf_counter_ns() - started, given(b"x-forwarded-for")
        self._add_record((now, route.name, status, taken, request_id, token, peer, forwarded, reason, size))
        if incoming is not None and incoming.is_unread and stream is None:
            await self._bodies.discard(incoming)

    def _failure_of(self, error: Exception, request_id: bytes) -> errors.RequestError:
        """The failure to answer with. Those of the service are logged."""
        if isinstance(error, errors.StoreTrouble) and not isinstance(error, errors.StoreMisuse):
            error = errors.ServerFailure(f"the database failed: {error}")
        if not isinstance(error, errors.RequestError):
            # Its type and place, never its text, which might quote the caller.
            place = {"request_id": request_id.decode(), "error": errors.described(error), "at": innermost(error)}
            self._log.event("error", "a request failed unexpectedly: please report this line", **place)
            self._access_log.count_unexpected()
            return errors.ServerFailure("unexpected")
        if isinstance(error, errors.ServerFailure):
            self._log.event("error", error.advice, request_id=request_id.decode(), reason=error.reason)
        return error


async def _send_stream(stream: AsyncGenerator[bytes], receive: Receive, send: Send) -> None:
    """Send every part, until the stream ends or the client is gone: the server does not say so when a part is sent."""

    async def send_parts() -> None:
        async with aclosing(stream):
            async for part in stream:
                await send({"type": "http.response.body", "body": part, "more_body": True})

    async def wait_for_disconnect() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async with asyncio.TaskGroup() as tasks:
        sending, leaving = tasks.create_task(send_parts()), tasks.create_task(wait_for_disconnect())
        sending.add_done_callback(lambda _: leaving.cancel())
        leaving.add_done_callback(lambda _: sending.cancel())


def _merged(headers: Headers) -> dict[bytes, bytes]:
    """Join repeated headers as RFC 9110 does: two credentials become none, two content types are not JSON."""
    merged: dict[bytes, bytes] = {}
    for name, value in headers:
        merged[name] = merged[name] + b", " + value if name in merged else value
    return merged


def _revision(given: bytes) -> int:
    if not given.isdigit() or len(given) > 18:
        raise errors.BadRequest("Relaydeck-Min-Revision is not a revision")
    return int(given)


def written_at(revision: int) -> Written:
    """The header with the revision of a write, which a later request may send as Relaydeck-Min-Revision."""
    return ((_REVISION, b"%d" % revision),)


def _has_written(reply: Reply) -> bool:
    """Whether the operation changed something just now: a plan did not, nor did an answer that is repeated."""
    return bool(reply.headers) and reply.headers[-1][0] == _REVISION


def _require_chunks(headers: dict[bytes, bytes]) -> None:
    """Refuse a body that a proxy might delimit differently: it could smuggle a request past the proxy.

    `Content-Length` beside `Transfer-Encoding` never gets here: the server drops the length, reads the chunks and
    closes the connection after its response, as RFC 9112 section 6.3 allows.
    """
    if headers[b"transfer-encoding"].lower() != b"chunked":
        raise errors.BadFraming("the only transfer encoding that is accepted is chunked")


def _release_frames(error: BaseException) -> None:
    """Take the tracebacks off an exception and off those that led to it.

    A traceback holds frames, and a frame (or a future in it) may hold the exception: only the garbage collector would
    free such a cycle, with the request and its body, and under load it would do so after thousands of them.
    """
    chain: list[BaseException | None] = [error]
    while chain:
        if (each := chain.pop()) is not None:
            chain += each.__cause__, each.__context__
            each.__traceback__ = each.__cause__ = each.__context__ = None


def innermost(error: BaseException) -> str:
    """The innermost line of the traceback."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename.rpartition('relaydeck')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _template(raw_path: bytes, identifier: str) -> str:
    """A path that is served, with a placeholder for its identifier: nothing in it is a value of the request."""
    parts = raw_path.decode("latin-1").split("/")
    if identifier:
        parts[_IDENTIFIER] = "{id}" if parts[1] == "admin" else f"{{{parts[3][:-1]}_id}}"
    return "/".join(parts)


# -- Finds the route of a request by its method and path --

T = TypeVar("T")
Routes = dict[str, dict[str, Route]]  # by path and method; `{…}` as the fourth segment of a path is an identifier
_SLASHES = re.compile(rb"/{2,}")
_DOUBLED = re.compile(rb"^/(?:api|admin)/v1(/(?:api|admin)/v1)(?=/)")  # a client whose URL ends in a prefix
_IDENTIFIER = 4  # its place when a path is split, as in `/api/v1/notifications/pager`


# sentence: 9-prefix
class Router:
    """An exact path is one look-up; only a path that contains an identifier is split.

    Paths are compared as sent: only an identifier in a path may be percent-encoded.
    """

    def __init__(self, routes: Routes, below: Mapping[bytes, Find] = MappingProxyType({})) -> None:
        """`below`: finds the routes under a first segment."""
        self._below = below
        self.exact: dict[bytes, dict[str, tuple[Route, str]]] = {}
        self._templates: dict[tuple[bytes, ...], dict[str, Route]] = {}
        for path, methods in routes.items():
            if "{" in path:
                around = path.encode().split(b"/")
                around[_IDENTIFIER] = b""  # in whose place none is empty
                self._templates[tuple(around)] = with_head(methods)
            else:
                self.exact[path.encode()] = {name: (route, "") for name, route in with_head(methods).items()}

    def find(self, method: str, path: str, raw_path: bytes) -> tuple[Route, str]:
        """The route and the identifier in its path. Raises UnknownPath or WrongMethod."""
        try:
            return self._find(method, path, raw_path)
        except errors.UnknownPath:
            if near := self._near(method, raw_path):
                raise errors.UnknownPath(f"nothing is served at this path: {near}") from None
            raise

    def _find(self, method: str, path: str, raw_path: bytes) -> tuple[Route, str]:
        segments = raw_path.split(b"/")
        if len(segments) > 1 and segments[1] in self._below:
            return self._below[segments[1]](method, path, raw_path)
        if (exact := self.exact.get(raw_path)) is not None:
            return _of_method(exact, method)
        methods, identifier = self._with_identifier(segments)
        if methods is None:
            raise errors.UnknownPath("nothing is served at this path")
        return _of_method(methods, method), identifier

    def _near(self, method: str, raw_path: bytes) -> str:
        """The mistakes in a path that differs little from one that is served. Empty: it does not."""
        folded = _SLASHES.sub(b"/", raw_path)
        whole = folded.rstrip(b"/")
        corrected = _DOUBLED.sub(rb"\1", whole)
        try:
            _, identifier = self._find(method, corrected.decode("latin-1"), corrected)
        except errors.RequestError:
            return ""
        mistakes = {
            "it has several slashes in a row": folded != raw_path,
            "leave out the slash at its end": whole != folded,
            f"it has two prefixes; the path is {_template(corrected, identifier)}": corrected != whole,
        }
        return "; ".join(text for text, is_made in mistakes.items() if is_made)

    def _with_identifier(self, segments: list[bytes]) -> tuple[dict[str, Route] | None, str]:
        if len(segments) <= _IDENTIFIER or not segments[_IDENTIFIER]:
            return None, ""
        identifier, segments[_IDENTIFIER] = segments[_IDENTIFIER], b""
        return self._templates.get(tuple(segments)), identifier.decode("latin-1")


def _of_method(methods: Mapping[str, T], method: str) -> T:
    if method not in methods:
        raise errors.WrongMethod(", ".join(methods))
    return methods[method]
