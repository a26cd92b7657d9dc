"""The Valkey or Redis server that keeps the buckets of several replicas: one connection, one script.

Of its address only scheme, host and port are ever told, and of its errors only our own words: theirs may quote
a password.
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
_SECOND_LOOK_SECONDS = 0.02


class LimitServerError(Exception):
    """Why the server cannot be asked, in our words."""


class LimitServer:
    """Speaks to the server by the client's single connections: its pool costs twice as much for each question."""

    def __init__(self, url: Secret, password_file: Path | None, timeout_seconds: float) -> None:
        self._url = url
        self._password_file = password_file
        self._timeout = timeout_seconds
        self._script = Path(__file__).with_name("take.lua").read_text("utf-8")
        self._digest = hashlib.sha1(self._script.encode(), usedforsecurity=False).hexdigest()
        self._connection: AbstractConnection | None = None

    @property
    def shown(self) -> str:
        parts = urlsplit(self._url.reveal())
        return f"unix://{parts.path}" if parts.scheme == "unix" else shown_address(self._url.reveal())

    async def connect(self) -> None:
        """Connect anew and hand the script over, run on no bucket: it is loaded, and may be run."""
        # In a thread: it takes a tenth of a second, and requests are answered meanwhile.
        await asyncio.to_thread(import_module, "redis.asyncio")
        await self.close()
        await self._in_time(self._connect())

    async def _connect(self) -> None:
        self._connection = self._new_connection()
        await self._connection.connect()  # type: ignore[no-untyped-call]
        await self._ask("EVAL", self._script, 0, 1, 1)

    def _new_connection(self) -> "AbstractConnection":
        from redis.asyncio import ConnectionPool
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff

        # The older protocol greets with fewer questions; the time of each is kept by `_in_time`.
        options: dict[str, Any] = {
            "protocol": 2,
            "driver_info": None,
            "socket_timeout": None,
            "retry": Retry(NoBackoff(), 0),
        }
        if self._password_file is not None:
            options["password"] = self._password_file.read_text("utf-8").strip()
        # Valkey's schemes are those of Redis by another name.
        pool = ConnectionPool.from_url(re.sub("^valkey", "redis", self._url.reveal()), **options)
        connection: AbstractConnection = pool.make_connection()  # type: ignore[no-untyped-call]
        return connection

    async def take(self, rate: int, burst: int, asked: dict[str, int]) -> list[int]:
        """What each bucket held, in millionths of a request, before as many were taken as asked for or as it had."""
        return await self._in_time(self._take([len(asked), *asked, rate, burst, *asked.values()]))

    async def _take(self, arguments: list[str | int]) -> list[int]:
        from redis.exceptions import NoScriptError

        try:
            return await self._ask("EVALSHA", self._digest, *arguments)
        except NoScriptError:  # it was restarted, or told to forget its scripts
            return await self._ask("EVAL", self._script, *arguments)

    async def _ask(self, *command: str | int) -> list[int]:
        assert self._connection is not None
        await self._connection.send_command(*command)
        levels: list[int] = await self._connection.read_response()
        return levels

    async def _in_time(self, answer: Awaitable[T]) -> T:
        """The answer, or LimitServerError.

        When the time is up there is a second look: if it was this process that stood still, the answer lies in the
        socket and nobody has had the time to read it.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as deadline:
                up = loop.call_later(self._timeout, lambda: deadline.reschedule(loop.time() + _SECOND_LOOK_SECONDS))
                try:
                    return await answer
                finally:
                    up.cancel()
        except Exception as error:
            raise LimitServerError(problem_words(error)) from None

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # what is thrown away may be broken
                await connection.disconnect(nowait=True)


def problem_words(error: Exception) -> str:
    from redis import exceptions

    if isinstance(error, UnicodeDecodeError | PermissionError | FileNotFoundError | IsADirectoryError):
        return "a file it needs cannot be read"
    if isinstance(error.__context__ or error, ssl.SSLError):
        return "TLS with it fails: check its certificate, and that it speaks TLS"
    if isinstance(error, exceptions.NoPermissionError):
        return "its user may not run what the limit needs"
    if isinstance(error, exceptions.AuthenticationError):
        return "it refuses the user name or password"
    if isinstance(error, TimeoutError | exceptions.TimeoutError):
        return "it does not answer in time"
    if isinstance(error, OSError | exceptions.ConnectionError):
        return "it cannot be reached"
    return f"it answers with an error ({type(error).__name__})"
