"""The bare application: the same server, the same bytes, and no look at the request.

Run as `python -m bench.bare PORT FILE`; FILE holds a whole HTTP answer as it was captured from Relaydeck.
It imports nothing but the server, for its start is measured too.
"""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from granian import Granian
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

_ADDED_BY_THE_SERVER = (b"server", b"date", b"content-length")


def parse_answer(raw: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Headers that the application sets, and the body."""
    head, _, body = raw.partition(b"\r\n\r\n")
    pairs = (line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
    return [(name, value) for name, value in pairs if name.lower() not in _ADDED_BY_THE_SERVER], body


def bare_application(raw: bytes) -> Application:
    headers, body = parse_answer(raw)

    async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return application


async def live(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


def serve(port: int, load: Callable[[], Application]) -> None:
    """Like `relaydeck serve`: one worker, ASGI, the same settings of the server."""
    Granian(
        "bench",
        address="127.0.0.1",
        port=port,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,
        backlog=4096,
        backpressure=16_384,
        workers=1,
        websockets=False,
        http1_settings=HTTP1Settings(header_read_timeout=10_000),
        respawn_failed_workers=True,
        workers_kill_timeout=5,
        log_level=LogLevels.warning,
    ).serve(target_loader=load, wrap_loader=False)


if __name__ == "__main__":
    serve(int(sys.argv[1]), lambda: bare_application(Path(sys.argv[2]).read_bytes()))
