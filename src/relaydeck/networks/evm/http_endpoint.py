"""JSON-RPC over HTTP to one URL.

The connector of aiohttp opens, checks and keeps the connections, and its parser reads the responses. What a client
session does for every request is done once for each URL: parsing it and building the headers. That is most of the
time that a request takes in this process.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest
from aiohttp.helpers import strip_auth_from_url
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.tracing import Trace
from multidict import CIMultiDict
from yarl import URL

from relaydeck.networks.evm.endpoint import CONNECTION_ERRORS, Headers, Response, failure_of, seconds_of
from relaydeck.networks.evm.errors import AnswerTooLarge

_HEADERS = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "relaydeck"}
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None)  # the pool sets the timeouts


class HttpEndpoint:
    """Redirects are not followed: a key must not be sent to a host that the operator did not configure."""

    def __init__(self, url: str, headers: Headers, session: aiohttp.ClientSession, limit: int) -> None:
        self._url = url
        self._headers = headers
        self._session = session
        self._limit = limit
        self._request: ClientRequest | None = None
        self._head = b""

    async def send(self, body: bytes, numbers: Sequence[int]) -> Response:
        try:
            try:
                return await self._post(body)
            except aiohttp.ClientConnectorError:
                raise
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                # The node may have closed a kept connection while we wrote. A read can be repeated: once.
                return await self._post(body)
        except CONNECTION_ERRORS as error:
            raise failure_of(error) from None

    async def close(self) -> None:
        """The connections belong to the connector."""

    async def _post(self, body: bytes) -> Response:
        if self._session.trace_configs:
            return await self._traced(body)
        return await self._exchange(b"", body)

    async def _exchange(self, more: bytes, body: bytes) -> Response:
        request = self._request or self._build()
        connector = self._session.connector
        assert connector is not None
        connection = await connector.connect(request, traces=[], timeout=_NO_TIMEOUT)
        try:
            protocol = connection.protocol
            assert protocol is not None
            protocol.set_response_params(read_until_eof=True, auto_decompress=False)
            transport = protocol.transport
            if transport is None:
                raise aiohttp.ServerDisconnectedError
            transport.write(b"%b%bContent-Length: %d\r\n\r\n%b" % (self._head, more, len(body), body))
            response = await self._read(protocol)
        except HttpProcessingError:
            connection.close()
            raise aiohttp.ClientError("not HTTP") from None
        except BaseException:
            connection.close()
            raise
        connection.release()
        return response

    async def _read(self, protocol: ResponseHandler) -> Response:
        message, payload = await protocol.read()
        chunks, size = [], 0
        while chunk := await payload.readany():
            size += len(chunk)
            if size > self._limit:
                raise AnswerTooLarge(f"answered more than {self._limit} bytes")
            chunks.append(chunk)
        body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        return Response(message.code, body, seconds_of(message.headers.get("Retry-After", "")))

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
