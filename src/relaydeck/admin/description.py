"""The description of the admin API: `openapi.json` for machines, `docs` for people. Neither needs a credential."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec

from relaydeck.admin.routes import Methods
from relaydeck.http.built_once import BuiltOnce
from relaydeck.http.own_address import page_with_own_address
from relaydeck.http.pipeline import JSON, Call, Reply


class AdminDescription:
    """Both are built by the first request for them and kept."""

    def __init__(self, render: Callable[[dict[str, Any]], str]) -> None:
        self._render = render
        self._document = BuiltOnce(lambda: asyncio.to_thread(_encoded))
        self._page = BuiltOnce(self._build_page)

    def routes(self) -> dict[str, Methods]:
        return {"openapi.json": {"GET": self.openapi}, "docs": {"GET": self.docs}}

    async def openapi(self, _call: Call) -> Reply:
        return Reply(200, await self._document.get(), JSON)

    async def docs(self, call: Call) -> Reply:
        return page_with_own_address(await self._page.get(), call)

    async def _build_page(self) -> bytes:
        document = await self._document.get()
        return await asyncio.to_thread(lambda: self._render(msgspec.json.decode(document)).encode())


def _encoded() -> bytes:
    document: bytes = msgspec.json.encode(import_module("relaydeck.admin.openapi").document())
    return document
