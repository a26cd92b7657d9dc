"""Starting both sides, and knowing when they have started."""

import os
import socket
import sys
import time
from pathlib import Path

from bench.homes import Home
from bench.load import Request, as_bytes
from bench.processes import Server, free_port

# The limit is on, and never reached.
SETTINGS = {
    "RELAYDECK_RATE_LIMIT_PER_SECOND": "1000000",
    "RELAYDECK_RATE_LIMIT_BURST": "1000000",
    "RELAYDECK_LOG_FORMAT": "json",
    "RELAYDECK_LOG_LEVEL": "info",
    # The relayers of a bench have URLs that lead nowhere: looking at them would be measured too, and leave the machine.
    "RELAYDECK_MONITOR_INTERVAL_SECONDS": "0",
}
_FIRST_ANSWER_SECONDS = 120.0
_QUIET_SECONDS = 0.5
_QUIET_SHARE = 0.03


def serve_relaydeck(home: Home, *, workers: int = 1, **settings: str) -> Server:
    """With these settings beside the usual ones (`webhook_allow="127.0.0.0/8"`)."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAYDECK_")}
    given = {f"RELAYDECK_{name.upper()}": value for name, value in settings.items()}
    environment = kept | SETTINGS | given | {"RELAYDECK_HOME": str(home.folder)}
    if home.database:
        environment["RELAYDECK_DATABASE_URL"] = home.database
    port = free_port()
    command = [sys.executable, "-m", "relaydeck", "serve", "--port", str(port), "--workers", str(workers)]
    return Server(port, command, home.folder.with_suffix(".log"), environment)


def serve_bare(answer: Path) -> Server:
    port = free_port()
    return Server(port, [sys.executable, "-m", "bench.bare", str(port), str(answer)], answer.with_suffix(".log"))


def serve_bare_create(answer: Path, database: Path) -> Server:
    port = free_port()
    command = [sys.executable, "-m", "bench.bare_create", str(port), str(answer), str(database)]
    return Server(port, command, answer.with_suffix(".log"))


def first_answer(server: Server, request: Request) -> float:
    """Wait for the first answer; how many seconds that took from now."""
    started = time.monotonic()
    while not _answers(server.port, request):
        server.require_alive()
        if time.monotonic() - started > _FIRST_ANSWER_SECONDS:
            raise RuntimeError("a server did not answer in time")
        time.sleep(0.002)
    return time.monotonic() - started


def _answers(port: int, request: Request) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_FIRST_ANSWER_SECONDS) as client:
            client.sendall(as_bytes(request, time.time_ns() // 1000))
            start = client.recv(12)
    except OSError:
        return False
    if start and not start.startswith(b"HTTP/1.1 2"):
        raise RuntimeError(f"a server refused the first request: {start.decode('latin-1')}")
    return bool(start)


def await_quiet(server: Server, seconds: float = 180.0) -> None:
    """Wait until a server does nothing by itself any more: what it warms in the background is warm."""
    until = time.monotonic() + seconds
    quiet = 0
    while quiet < 2 and time.monotonic() < until:
        before = server.cpu_seconds()
        time.sleep(_QUIET_SECONDS)
        used = server.cpu_seconds() - before
        quiet = quiet + 1 if used <= _QUIET_SHARE * _QUIET_SECONDS else 0
