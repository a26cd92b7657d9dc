"""The connections to every node, over HTTP or a WebSocket, with the same checks of their addresses."""

import asyncio
from collections.abc import Sequence

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

from relaydeck.address_guard import AddressGuard
from relaydeck.networks.evm.endpoint import Endpoint, Response
from relaydeck.networks.evm.http_endpoint import HttpEndpoint
from relaydeck.networks.evm.websocket_endpoint import WebSocketEndpoint
from relaydeck.networks.model import RpcUrl
from relaydeck.networks.node_rule import NodeGuards
from relaydeck.outgoing_connections import NameResolver, Parsing, Resolve, guarded_connector, traces

_KEEP_ALIVE_SECONDS = 30


class Connections:
    """One per event loop. Keeps connections alive; the slots of the pools limit how many are open.

    URLs with different guards share no connection: one that is kept alive is not checked again.
    """

    def __init__(self, max_response_bytes: int, guards: NodeGuards, resolve: Resolve | None = None) -> None:
        self._limit = max_response_bytes
        self._endpoints: dict[RpcUrl, Endpoint] = {}
        self._parsing = Parsing(asyncio.get_running_loop())
        self._guards = guards
        self._resolve = resolve or NameResolver()
        self._sessions: dict[AddressGuard, aiohttp.ClientSession] = {}

    async def send(self, url: RpcUrl, body: bytes, numbers: Sequence[int]) -> Response:
        """Send a request with these JSON-RPC ids. Raises `UrlFailed` and nothing else."""
        endpoint = self._endpoints.get(url)
        if endpoint is None:
            endpoint = self._endpoints[url] = self._make(url)
        return await endpoint.send(body, numbers)

    def _make(self, url: RpcUrl) -> Endpoint:
        session = self._session(self._guards.over_http if url.set_over_http else self._guards.others)
        if url.url[:2].lower() == "ws":
            return WebSocketEndpoint(url.url, url.revealed_headers, session, self._limit)
        return HttpEndpoint(url.url, url.revealed_headers, session, self._limit, self._parsing)

    def _session(self, guard: AddressGuard) -> aiohttp.ClientSession:
        if guard not in self._sessions:
            self._sessions[guard] = aiohttp.ClientSession(
                connector=guarded_connector(guard, self._resolve, keep_alive_seconds=_KEEP_ALIVE_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=traces("node call"),
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                middlewares=(_refuse_redirect,),
            )
        return self._sessions[guard]

    async def drop(self, urls: Sequence[RpcUrl]) -> None:
        """These are not used any more. Another pool that uses one of them connects again."""
        for url in urls:
            if endpoint := self._endpoints.pop(url, None):
                await endpoint.close()

    async def close(self) -> None:
        await self.drop(list(self._endpoints))
        for session in self._sessions.values():
            await session.close()


async def _refuse_redirect(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """A key must not be sent to a host that the operator did not configure. A WebSocket would follow a redirect."""
    response = await handler(request)
    if response.status in (301, 302, 303, 307, 308):
        response.close()
        raise aiohttp.WSServerHandshakeError(response.request_info, (), status=response.status)
    return response
