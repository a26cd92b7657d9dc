"""The description of the interface: `/openapi.json` for machines, `/docs` for people."""

from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from relaydeck.http.own_address import with_own_address
from relaydeck.http.pipeline import JSON, Call, Reply, Route

_HTML = (b"content-type", b"text/html; charset=utf-8")


class DescriptionRoutes:
    """Both are built by the first request for them: most workers never get one, and the service starts quickly.

    `serves_operations`: whether the operations that they describe are on the same port.
    """

    def __init__(self, *, serves_operations: bool) -> None:
        self._serves_operations = serves_operations

    def routes(self) -> dict[str, dict[str, Route]]:
        answers = {"/openapi.json": self.openapi, "/docs": self.docs}
        return {path: {"GET": Route("operations", None, answer=answer)} for path, answer in answers.items()}

    async def openapi(self, _call: Call) -> Reply:
        return Reply(200, _document(), JSON)

    async def docs(self, call: Call) -> Reply:
        return Reply(200, with_own_address(_page(), call) if self._serves_operations else _page(), _HTML)


def admin_page(document: dict[str, Any]) -> str:
    """The document of the admin API, as the same kind of page."""
    page: str = import_module("relaydeck.contract.docs_page").page(document)
    return page


@cache
def _document() -> bytes:
    content: bytes = msgspec.json.encode(import_module("relaydeck.contract.openapi").document())
    return content


@cache
def _page() -> bytes:
    page: str = import_module("relaydeck.contract.docs_page").page(msgspec.json.decode(_document()))
    return page.encode()
