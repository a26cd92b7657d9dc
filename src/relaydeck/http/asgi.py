"""The types of the ASGI interface, through which the HTTP server calls the application."""

from collections.abc import Awaitable, Callable
from typing import Any

Scope = dict[str, Any]  # what the server read of a request before its body
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Handle = Callable[[Scope, Receive, Send], Awaitable[None]]
