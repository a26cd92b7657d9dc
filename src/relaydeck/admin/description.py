"""The description of the admin API: `openapi.json` for machines, `docs` for people. Neither needs a credential."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import msgspec

from relaydeck.admin.routes import Methods
from relaydeck.http.own_address import with_own_address
from relaydeck.http.pipeline import JSON, Call, Reply

_HTML = (b"content-type", b"text/html; charset=utf-8")


class AdminDescription:
    """Both are built by the first request for them and kept."""

    def __init__(self, render: Callable[[dict[str, Any]], str]) -> None:
        self._render = render
        self._document = b""
        self._page = b""

    def routes(self) -> dict[str, Methods]:
        return {"openapi.json": {"GET": self.openapi}, "docs": {"GET": self.docs}}

    async def openapi(self, _call: Call) -> Reply:
        return Reply(200, self._encoded(), JSON)

    async def docs(self, call: Call) -> Reply:
        self._page = self._page or self._render(msgspec.json.decode(self._encoded())).encode()
        return Reply(200, with_own_address(self._page, call), _HTML)

    def _encoded(self) -> bytes:
        if not self._document:
            self._document = msgspec.json.encode(import_module("relaydeck.admin.openapi").document())
        return self._document
