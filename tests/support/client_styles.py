"""Both clients behind one face, so that every test runs in both styles."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any

from relaydeck.client import AsyncClient, Client, Retry

AT_ONCE = Retry(first_pause=0.0, longest_pause=0.0)
STYLES = ("sync", "async")


class Style:
    """`do(lambda client: client.list_signers())` runs it; an iterator becomes a list."""

    def __init__(
        self,
        name: str,
        url: str,
        token: str,
        *,
        timeout: float = 60.0,
        retry: Retry = AT_ONCE,
        ssl_context: ssl.SSLContext | None = None,
        **options: int,
    ) -> None:
        self._runner = asyncio.Runner() if name == "async" else None
        kind: Any = AsyncClient if name == "async" else Client
        self.client: Any = kind(url, token, timeout=timeout, retry=retry, ssl_context=ssl_context, **options)

    def do(self, work: Callable[[Any], Any]) -> Any:
        if self._runner is None:
            found = work(self.client)
            return list(found) if hasattr(found, "__next__") else found
        return self._runner.run(_awaited(work, self.client))

    def __enter__(self) -> "Style":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is None:
            self.client.close()
        else:
            self._runner.run(self.client.close())
            self._runner.close()


async def _awaited(work: Callable[[Any], Any], client: Any) -> Any:
    found = work(client)
    if isinstance(found, AsyncIterator):
        return [each async for each in found]
    return await found
