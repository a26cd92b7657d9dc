"""JSON-RPC over HTTP to one URL.

The connector of aiohttp opens and checks the connections. What a client session does for every request is done once
for each URL: parsing it and building the headers.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import aiohttp
from aiohttp.client_reqrep import ClientRequest
from aiohttp.helpers import strip_auth_from_url
from aiohttp.tracing import Trace
from multidict import CIMultiDict
from yarl import URL

from relaydeck.networks.evm.endpoint import CONNECTION_ERRORS, Headers, Response, failure_of
from relaydeck.networks.evm.http_connection import HttpConnection
from relaydeck.outgoing_connections import Parsing

_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "relaydeck"}
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)  # the pool sets the timeouts
_IDLE_SECONDS = 30.0


class HttpEndpoint:
    """Redirects are not followed: a key must not be sent to a host that the operator did not configure."""

    def __init__(
        self, url: str, headers: Headers, session: aiohttp.ClientSession, limit: int, parsing: Parsing
    ) -> None:
        self._url = url
        self._headers = headers
        self._session = session
        self._limit = limit
        self._parsing = parsing
        self._loop = asyncio.get_running_loop()
        self._request: ClientRequest | None = None
        self._head = b""
        self._idle: list[HttpConnection] = []  # the one used last at the end
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None

    async def send(self, body: bytes, numbers: Sequence[int]) -> Response:
        try:
            try:
                return await self._post(body)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                # The node may have closed a kept connection while we wrote, and others. A read can be repeated: once.
                self._drop_idle()
                return await self._post(body)
        except CONNECTION_ERRORS as error:
            raise failure_of(error) from None

    async def close(self) -> None:
        """A request that is under way is answered; its connection is closed then."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._drop_idle()

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _post(self, body: bytes) -> Awaitable[Response]:
        return self._traced(body) if self._session.trace_configs else self._exchange(b"", body)

    async def _exchange(self, more: bytes, body: bytes) -> Response:
        connection = self._kept() or await self._open()
        try:
            request = b"%b%bContent-Length: %d\r\n\r\n%b" % (self._head, more, len(body), body)
            response = await connection.ask(request)
        except BaseException:
            connection.close()
            raise
        self._keep(connection)
        return response

    async def _open(self) -> HttpConnection:
        connector = self._session.connector
        assert connector is not None
        opened = await connector.connect(self._request or self._build(), traces=[], timeout=_NO_TIMEOUT)
        return HttpConnection(opened, self._limit, self._parsing)

    def _kept(self) -> HttpConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
            connection.close()
        return None

    def _keep(self, connection: HttpConnection) -> None:
        if self._closed or not connection.is_usable:
            connection.close()
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._timer is None:
            self._timer = self._loop.call_later(_IDLE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        """Close the connections that were not used for long. Those used last are at the end of the list."""
        self._timer, before = None, self._loop.time() - _IDLE_SECONDS
        while self._idle and self._idle[0].idle_since <= before:
            self._idle.pop(0).close()
        if self._idle:
            wait = self._idle[0].idle_since - before
            self._timer = self._loop.call_later(wait, self._close_idle)

    def _build(self) -> ClientRequest:
        url, auth = strip_auth_from_url(URL(self._url))
        given = CIMultiDict(_HEADERS)
        for name, _ in self._headers:
            given.pop(name, None)
        given.extend(self._headers)
        if "Authorization" in given:
            auth = None
        request = ClientRequest("POST", url, headers=given, auth=auth, loop=asyncio.get_running_loop(), ssl=True)
        request.headers.pop("Content-Length", None)
        self._head = f"POST {request.url.raw_path_qs} HTTP/1.1\r\n".encode() + _lines(request.headers)
        self._request = request
        return request

    async def _traced(self, body: bytes) -> Response:
        url, more = (self._request or self._build()).url, CIMultiDict[str]()
        traces = [Trace(self._session, each, each.trace_config_ctx()) for each in self._session.trace_configs]
        for trace in traces:
            await trace.send_request_start("POST", url, more)
        try:
            response: Any = await self._exchange(_lines(more), body)
        except Exception as error:
            for trace in traces:
                await trace.send_request_exception("POST", url, more, error)
            raise
        for trace in traces:
            await trace.send_request_end("POST", url, more, response)
        found: Response = response
        return found


def _lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
