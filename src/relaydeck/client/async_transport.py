"""Sends requests over kept-alive connections with aiohttp."""

import asyncio
import ssl

import aiohttp
from yarl import URL

from relaydeck.client.calls import Outcome, Request, Response
from relaydeck.client.errors import ConnectFailed, ConnectionLost, TimedOut
from relaydeck.client.exchange import Address, too_large


class Session:
    """Made before the event loop runs, opened at the first request."""

    def __init__(self, address: Address, timeout: float, ssl_context: ssl.SSLContext | None, most_bytes: int) -> None:
        self._address = address
        self._timeout = timeout
        self._most_bytes = most_bytes
        self._ssl_context = ssl_context
        self._opened: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> Outcome:
        """One attempt. What goes wrong on the way is returned, not raised."""
        url = URL(self._address.origin + request.target, encoded=True)
        try:
            async with self._session().request(
                request.method, url, data=request.body, headers=request.headers, allow_redirects=False
            ) as answer:
                body = await self._body(answer)
                if body is None:
                    answer.close()
                    return too_large(answer.status, self._most_bytes)
                return Response(answer.status, answer.headers, body)
        except aiohttp.ClientConnectorError as error:
            return ConnectFailed(
                f"cannot connect to {self._address.origin}: {error.os_error.strerror or type(error.os_error).__name__}"
            )
        except aiohttp.ConnectionTimeoutError:
            return ConnectFailed(f"cannot connect to {self._address.origin}: no connection in {self._timeout:g} s")
        except TimeoutError:
            return TimedOut(f"no complete response within {self._timeout:g} s")
        except (aiohttp.ClientError, OSError) as error:
            name = str(error) if isinstance(error, _ConnectionBroke) else type(error).__name__
            return ConnectionLost(f"the connection broke before the response was complete ({name})")

    async def _body(self, answer: aiohttp.ClientResponse) -> bytes | None:
        """The whole body; None: there is more than there may be."""
        if answer.content_length is not None:
            return await answer.read() if answer.content_length <= self._most_bytes else None
        body = bytearray()
        while len(body) <= self._most_bytes and (part := await answer.content.readany()):
            body += part
        return bytes(body) if len(body) <= self._most_bytes else None

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            ssl_context = True if self._ssl_context is None else self._ssl_context
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=ssl_context, limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=self._timeout, sock_connect=self._timeout),
                middlewares=(_send_once,),
            )
        return self._opened


class _ConnectionBroke(aiohttp.ClientConnectionError):
    """Its text is the name of the error."""


async def _send_once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Raises another error than those after which aiohttp repeats a DELETE by itself, when a reused connection breaks.

    Only the exchange may repeat: it has to know that the first attempt may have succeeded.
    """
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise  # nothing was sent
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        name = type(error).__name__
    raise _ConnectionBroke(name)
