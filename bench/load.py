"""The load: 64 connections, kept alive, one request after another on each, for a bounded time.

wrk where there is one, else a client of our own in Python. The same client for every side of a comparison.
"""

import asyncio
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple, Protocol

CONNECTIONS = 64
NUMBER = "<number>"  # stands for 16 digits that never come twice


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: str = ""

    @property
    def varies(self) -> bool:
        return NUMBER in self.path + self.body


class Done(NamedTuple):
    requests: int
    seconds: float


class Load(Protocol):
    name: str

    def run(self, port: int, request: Request, seconds: float) -> Done:
        """Send requests for about that long. Raises RuntimeError when any is refused."""
        ...


class Wrk:
    name = "wrk"

    def __init__(self, program: str) -> None:
        self._program = program

    def run(self, port: int, request: Request, seconds: float) -> Done:
        with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
            script.write(_lua(request))
            script.flush()
            whole = max(1, round(seconds))
            done = subprocess.run(
                [
                    self._program,
                    "-t1",
                    f"-c{CONNECTIONS}",
                    f"-d{whole}s",
                    "-s",
                    script.name,
                    f"http://127.0.0.1:{port}",
                ],
                capture_output=True,
                text=True,
                timeout=whole + 30,
                check=True,
            )
        return _read_wrk(done.stdout)


def _lua(request: Request) -> str:
    """A request that stays the same is formatted once; one that varies, each time."""
    headers = ", ".join(f'["{name}"] = "{value}"' for name, value in request.headers.items())
    arguments = ", ".join([f'"{request.method}"', _pieces(request.path), "headers", _pieces(request.body)])
    same = "" if request.varies else f"\nlocal whole\nfunction init() whole = wrk.format({arguments}) end"
    each = f"n = n + 1\n  return wrk.format({arguments})" if request.varies else "return whole"
    start = f"local n = {time.time_ns() // 1000}\nlocal headers = {{ {headers} }}"
    return f"{start}{same}\nfunction request()\n  {each}\nend\n"


def _pieces(text: str) -> str:
    number = "]] .. string.format('%016d', n) .. [["
    return f"[[{text.replace(NUMBER, number)}]]" if text else "nil"


def _read_wrk(output: str) -> Done:
    if "Non-2xx" in output or "Socket errors" in output:
        raise RuntimeError(f"requests were refused under load:\n{output}")
    found = re.search(r"(\d+) requests in ([\d.]+)(ms|s|m),", output)
    if found is None:
        raise RuntimeError(f"wrk said something else than expected:\n{output}")
    return Done(int(found[1]), float(found[2]) * {"ms": 0.001, "s": 1, "m": 60}[found[3]])


class PythonLoad:
    name = "Python client"

    def run(self, port: int, request: Request, seconds: float) -> Done:
        return asyncio.run(self._run(port, request, seconds))

    async def _run(self, port: int, request: Request, seconds: float) -> Done:
        started = time.monotonic()
        numbers = iter(range(time.time_ns() // 1000, 10**16))
        clients = [_client(port, request, numbers, started + seconds) for _ in range(CONNECTIONS)]
        counts = await asyncio.wait_for(asyncio.gather(*clients), seconds + 30)
        return Done(sum(counts), time.monotonic() - started)


async def _client(port: int, request: Request, numbers: Iterator[int], until: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answered = 0
    try:
        while time.monotonic() < until:
            writer.write(as_bytes(request, next(numbers)))
            await read_answer(reader)
            answered += 1
    finally:
        writer.close()
    return answered


def as_bytes(request: Request, number: int) -> bytes:
    body = request.body.replace(NUMBER, f"{number:016d}").encode()
    path = request.path.replace(NUMBER, f"{number:016d}")
    lines = [f"{request.method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    """One whole answer of ours: a 2xx with a Content-Length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    if not head.startswith(b"HTTP/1.1 2") or length is None:
        raise RuntimeError(f"a request was refused under load: {head.decode('latin-1')}")
    return head + await reader.readexactly(int(length[1]))


def ask_once(port: int, request: Request) -> bytes:
    """One request on a connection of its own; the whole answer, as it came."""

    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(as_bytes(request, time.time_ns() // 1000))
            return await asyncio.wait_for(read_answer(reader), 60)
        finally:
            writer.close()

    return asyncio.run(ask())


def choose(wrk: str | None) -> Load:
    return Wrk(wrk) if wrk else PythonLoad()
