"""The documents and pages of both interfaces take long to build: that holds up no other request."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from relaydeck.admin import openapi as admin_openapi
from relaydeck.admin.description import AdminDescription
from relaydeck.contract import docs_page, openapi
from relaydeck.contract.description import DescriptionRoutes, rendered
from relaydeck.http.pipeline import Call, Reply

CALL = Call("", {}, b"", b"", None)
Answer = Callable[[Call], Awaitable[Reply]]


class Builders:
    """Notes for each thing that is built whether that was in the thread of the event loop."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.built: list[tuple[str, bool]] = []

    def watch(self, module: Any, name: str) -> None:
        build = getattr(module, name)

        def noting(*arguments: Any) -> Any:
            self.built.append((name, threading.current_thread() is threading.main_thread()))
            return build(*arguments)

        self._patch.setattr(module, name, noting)


@pytest.fixture
def builders(monkeypatch: pytest.MonkeyPatch) -> Builders:
    return Builders(monkeypatch)


async def ask_twice_at_once(*answers: Answer) -> list[int]:
    replies = await asyncio.gather(*(answer(CALL) for answer in (*answers, *answers)))
    return [reply.status for reply in replies]


async def test_those_of_the_interface_are_built_once_in_a_thread(builders: Builders) -> None:
    builders.watch(openapi, "document")
    builders.watch(docs_page, "page")
    description = DescriptionRoutes(serves_operations=True)
    assert await ask_twice_at_once(description.docs, description.openapi) == [200] * 4
    assert builders.built == [("document", False), ("page", False)]


async def test_those_of_the_admin_api_are_built_once_in_a_thread(builders: Builders) -> None:
    builders.watch(admin_openapi, "document")
    builders.watch(docs_page, "page")
    description = AdminDescription(rendered)
    assert await ask_twice_at_once(description.docs, description.openapi) == [200] * 4
    assert builders.built == [("document", False), ("page", False)]
