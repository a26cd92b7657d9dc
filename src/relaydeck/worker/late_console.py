"""The console of a worker, loaded by its first request."""

import asyncio
import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from relaydeck.fees.estimator import Estimator
from relaydeck.http.pipeline import Call, Reply, Route
from relaydeck.settings import Settings
from relaydeck.store.writer import Writer
from relaydeck.worker.late_admin import LateAdmin

if TYPE_CHECKING:
    from relaydeck.console.console import Console

_CONSOLE = "relaydeck.console.console"
_RENDERING = "relaydeck.console.rendering"


class LateConsole:
    """`on_close` registers the function that closes the console; `revision` is that of the memory."""

    def __init__(
        self,
        settings: Settings,
        writer: Writer,
        admin: LateAdmin,
        estimator: Estimator,
        revision: Callable[[], int],
        on_close: Callable[[Callable[[], None]], object],
    ) -> None:
        self._settings, self._writer = settings, writer
        self._admin, self._estimator, self._revision = admin, estimator, revision
        self._on_close = on_close
        self._console: Console | None = None
        self._route = Route("console", None, answer=self._answer, reads_late=True)

    def find(self, method: str, _path: str, raw_path: bytes) -> tuple[Route, str]:
        """Every path below `/console` is one route: the console finds its pages by itself."""
        return self._route, f"{method} {raw_path.decode('latin-1')}"

    async def _answer(self, call: Call) -> Reply:
        """The first request loads the console, in a thread: templates take longer than the lists may wait."""
        if self._console is None:
            await asyncio.to_thread(_load)
        if self._console is None:  # another first request may have opened it meanwhile
            self._console = self._open()
            self._on_close(self._console.close)
        return await self._console.answer(call)

    def _open(self) -> "Console":
        module, api = import_module(_CONSOLE), self._admin.api()
        sources = module.Sources(
            settings=self._settings,
            writer=self._writer,
            find_admin=api.find,
            read=api.read,
            audit=api.console_audit,
            revision=self._revision,
            is_stopping=self._settings.stop_mark(os.getppid()).exists,
            estimator=self._estimator,
            examination=api.examination,
        )
        console: Console = module.Console(sources)
        return console


def _load() -> None:
    import_module(_CONSOLE)
    import_module(_RENDERING).compile_templates()


async def _redirect(_call: Call) -> Reply:
    return Reply(303, b"", headers=((b"location", b"/console"),))


HOME_PAGE = {"GET": Route("console", None, answer=_redirect)}
