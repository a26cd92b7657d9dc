"""The client of the Valkey or Redis server that holds the rate limit buckets of several replicas.

Only the scheme, host and port of its address are ever shown, and its errors only in our own words: its own messages
may quote a password.
"""

import asyncio
import hashlib
import re
import ssl
from collections.abc import Awaitable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from relaydeck.secret import Secret
from relaydeck.web_addresses import shown_address

if TYPE_CHECKING:
    from redis.asyncio.connection import AbstractConnection

T = TypeVar("T")
_GRACE_SECONDS = 0.02


class LimitServerError(Exception):
    """Why the limit server cannot be used, in our words."""


class LimitClient:
    """Runs one script over a single connection of the library: its connection pool costs twice as much per command."""

    def __init__(self, url: Secret, password_file: Path | None, timeout_seconds: float) -> None:
        self._url = url
        self._password_file = password_file
        self._timeout = timeout_seconds
        self._script = Path(__file__).with_name("shared_limit.lua").read_text("utf-8")
        self._digest = hashlib.sha1(self._script.encode(), usedforsecurity=False).hexdigest()
        self._connection: AbstractConnection | None = None

    @property
    def shown(self) -> str:
        parts = urlsplit(self._url.reveal())
        return f"unix://{parts.path}" if parts.scheme == "unix" else shown_address(self._url.reveal())

    async def connect(self) -> None:
        """Open a new connection and run the script on no bucket: this loads it and checks the permission to run it."""
        # In a thread: the import takes a tenth of a second, and the worker serves requests meanwhile.
        await asyncio.to_thread(import_module, "redis.asyncio")
        await self.close()
        await self._in_time(self._connect())

    async def _connect(self) -> None:
        self._connection = self._new_connection()
        await self._connection.connect()  # type: ignore[no-untyped-call]
        await self._send("EVAL", self._script, 0, 1, 1)

    def _new_connection(self) -> "AbstractConnection":
        from redis.asyncio import ConnectionPool
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        # The older protocol needs fewer round trips to connect. `_in_time` limits the time of each command.
        options: dict[str, Any] = {
            "protocol": 2,
            "driver_info": None,
            "socket_timeout": None,
            "retry": Retry(NoBackoff(), 0),
        }
        if self._password_file is not None:
            options["password"] = self._password_file.read_text("utf-8").strip()
        # The schemes of Valkey are those of Redis under another name.
        pool = ConnectionPool.from_url(re.sub("^valkey", "redis", self._url.reveal()), **options)
        connection: AbstractConnection = pool.make_connection()  # type: ignore[no-untyped-call]
        return connection

    async def take(self, rate: int, burst: int, asked: dict[str, int]) -> list[int]:
        """Take requests from buckets. Returns the level of each before that, in millionths of a request."""
        return await self._in_time(self._take([len(asked), *asked, rate, burst, *asked.values()]))

    async def _take(self, arguments: list[str | int]) -> list[int]:
        from redis.exceptions import NoScriptError

        try:
            return await self._send("EVALSHA", self._digest, *arguments)
        except NoScriptError:  # the server was restarted, or its scripts were flushed
            return await self._send("EVAL", self._script, *arguments)

    async def _send(self, *command: str | int) -> list[int]:
        assert self._connection is not None
        await self._connection.send_command(*command)
        levels: list[int] = await self._connection.read_response()
        return levels

    async def _in_time(self, answer: Awaitable[T]) -> T:
        """The answer. Raises LimitServerError, also when it takes too long.

        When the time is up, the event loop gets a moment to read the socket once more: if this process was paused,
        the answer has arrived and nothing has read it yet.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as deadline:
                up = loop.call_later(self._timeout, lambda: deadline.reschedule(loop.time() + _GRACE_SECONDS))
                try:
                    return await answer
                finally:
                    up.cancel()
        except Exception as error:
            raise LimitServerError(problem_words(error)) from None

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # the connection may be broken
                await connection.disconnect(nowait=True)


def problem_words(error: Exception) -> str:
    from redis import exceptions

    if isinstance(error, UnicodeDecodeError | PermissionError | FileNotFoundError | IsADirectoryError):
        return "a file that the connection needs cannot be read"
    if isinstance(error.__context__ or error, ssl.SSLError):
        return "the TLS handshake failed: check its certificate, and that it uses TLS"
    if isinstance(error, exceptions.NoPermissionError):
        return "its user lacks the permission to run the script"
    if isinstance(error, exceptions.AuthenticationError):
        return "it refused the user name or password"
    if isinstance(error, TimeoutError | exceptions.TimeoutError):
        return "it did not respond in time"
    if isinstance(error, OSError | exceptions.ConnectionError):
        return "it cannot be reached"
    return f"it responded with an error ({type(error).__name__})"
