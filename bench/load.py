"""The load: 64 connections, kept alive, one request after another on each, for a bounded time.

wrk where there is one, else a client of our own in Python. The same client for every side of a comparison. It is a
process of its own, so that it can be paused while another side has its turn.
"""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

CONNECTIONS = 64
_MOST_SIGNALS, _SIGNAL_SECONDS = 100, 0.02
NUMBER = "<number>"  # stands for 16 digits that never come twice


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: str = ""

    @property
    def varies(self) -> bool:
        return NUMBER in self.path + self.body


class Count(NamedTuple):
    requests: int
    latencies: tuple[float, float]  # median and 99th percentile, in milliseconds


class Done(NamedTuple):
    requests: int
    seconds: float  # without pauses
    latencies: tuple[float, float]


class Loading:
    """A load that is running. `read` finds in its output what it counted."""

    def __init__(self, command: Sequence[str], read: Callable[[str], Count]) -> None:
        self._read = read
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._resumed_at = time.monotonic()
        self._seconds = 0.0

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        self._seconds += time.monotonic() - self._resumed_at

    def resume(self) -> None:
        self._resumed_at = time.monotonic()
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> Done:
        """End a paused one. wrk goes on for up to a tenth of a second, which counts, too."""
        self.resume()
        for _ in range(_MOST_SIGNALS):
            # After a pause, the kernel may give the first signal to a thread of wrk that does not wait for it.
            self._process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_SIGNAL_SECONDS)
                break
        return self.wait(0)

    def wait(self, seconds: float) -> Done:
        """For its end, which is due in so many seconds. Raises RuntimeError when a request was refused."""
        try:
            output, errors = self._process.communicate(timeout=seconds + 30)
        except BaseException:
            self.kill()
            raise
        self._seconds += time.monotonic() - self._resumed_at
        if self._process.returncode:
            raise RuntimeError(f"the load failed:\n{output}{errors}")
        count = self._read(output)
        return Done(count.requests, self._seconds, count.latencies)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Load(Protocol):
    name: str

    def start(self, port: int, request: Request, seconds: float, connections: int = CONNECTIONS) -> Loading:
        """Send requests for about that long."""
        ...


def run_load(load: Load, port: int, request: Request, seconds: float, connections: int = CONNECTIONS) -> Done:
    return load.start(port, request, seconds, connections).wait(seconds)


class Wrk:
    name = "wrk"

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder

    def start(self, port: int, request: Request, seconds: float, connections: int = CONNECTIONS) -> Loading:
        script = self._folder / f"{port}.lua"
        script.write_text(_lua(request))
        whole = max(1, round(seconds))
        options = ["-t1", f"-c{connections}", f"-d{whole}s", "--latency", "-s", str(script)]
        return Loading([self._program, *options, f"http://127.0.0.1:{port}"], read_wrk)


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


_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


def read_wrk(output: str) -> Count:
    if "Non-2xx" in output or "Socket errors" in output:
        raise RuntimeError(f"requests were refused under load:\n{output}")
    requests = re.search(r"(\d+) requests in ", output)
    latencies = re.findall(r"^ +(?:50|99)% +([0-9.]+)(us|ms|s|m) *$", output, re.MULTILINE)
    if requests is None or len(latencies) != 2:
        raise RuntimeError(f"wrk said something else than expected:\n{output}")
    middle, high = (float(number) * _MILLISECONDS[unit] for number, unit in latencies)
    return Count(int(requests[1]), (middle, high))


class PythonLoad:
    name = "Python client"

    def start(self, port: int, request: Request, seconds: float, connections: int = CONNECTIONS) -> Loading:
        arguments = json.dumps([port, request, seconds, connections])
        return Loading([sys.executable, "-m", "bench.load", arguments], _read_own)


def _read_own(output: str) -> Count:
    requests, latencies = json.loads(output)
    return Count(requests, tuple(latencies))


async def _load(port: int, request: Request, seconds: float, connections: int) -> Count:
    """Send requests for that long or until SIGINT."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def end(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # `Loading.end` repeats the signal until the process has ended
        loop.call_soon_threadsafe(ended.set)

    signal.signal(signal.SIGINT, end)
    loop.call_later(seconds, ended.set)
    numbers = iter(range(time.time_ns() // 1000, 10**16))
    clients = [_client(port, request, numbers, ended) for _ in range(connections)]
    taken = sorted(each for client in await asyncio.gather(*clients) for each in client)
    return Count(len(taken), (taken[len(taken) // 2], taken[len(taken) * 99 // 100]) if taken else (0, 0))


async def _client(port: int, request: Request, numbers: Iterator[int], ended: asyncio.Event) -> list[float]:
    """The milliseconds that each answer took."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    taken = []
    try:
        while not ended.is_set():
            started = time.perf_counter()
            writer.write(as_bytes(request, next(numbers)))
            await read_answer(reader)
            taken.append((time.perf_counter() - started) * 1000)
    finally:
        writer.close()
    return taken


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


def choose(wrk: str | None, folder: Path) -> Load:
    """`folder` is for the files of the load."""
    return Wrk(wrk, folder) if wrk else PythonLoad()


def _main() -> None:
    port, request, seconds, connections = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(_load(port, Request(*request), seconds, connections))))


if __name__ == "__main__":
    _main()
