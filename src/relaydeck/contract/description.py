"""The description of the interface: `/openapi.json` for machines, `/docs` for people."""

import asyncio
from importlib import import_module
from typing import Any

import msgspec

from relaydeck.http.built_once import BuiltOnce
from relaydeck.http.own_address import HTML, page_with_own_address
from relaydeck.http.pipeline import JSON, Call, Reply, Route


class DescriptionRoutes:
    """Both are built by the first request for them: most workers never get one, and the service starts quickly.

    `serves_operations`: whether the operations that they describe are on the same port.
    """

    def __init__(self, *, serves_operations: bool) -> None:
        self._serves_operations = serves_operations
        self._document = BuiltOnce(lambda: asyncio.to_thread(_encoded))
        self._page = BuiltOnce(self._build_page)

    def routes(self) -> dict[str, dict[str, Route]]:
        answers = {"/openapi.json": self.openapi, "/docs": self.docs}
        return {path: {"GET": Route("operations", None, answer=answer)} for path, answer in answers.items()}

    async def openapi(self, _call: Call) -> Reply:
        return Reply(200, await self._document.get(), JSON)

    async def docs(self, call: Call) -> Reply:
        page = await self._page.get()
        return page_with_own_address(page, call) if self._serves_operations else Reply(200, page, HTML)

    async def _build_page(self) -> bytes:
        document = await self._document.get()
        return await asyncio.to_thread(lambda: rendered(msgspec.json.decode(document)).encode())


def _encoded() -> bytes:
    document: bytes = msgspec.json.encode(import_module("relaydeck.contract.openapi").document())
    return document


def rendered(document: dict[str, Any]) -> str:
    """A document as a page for people; that of the admin API becomes the same kind of page."""
    page: str = import_module("relaydeck.contract.docs_page").page(document)
    return page
