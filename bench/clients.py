"""What the Python client costs its caller for a list, above its bare HTTP library, and what its import costs."""

import asyncio
import http.client
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from statistics import median

import aiohttp

from bench.comparing import Ratio, ratio_of
from bench.homes import Home, make_home
from bench.processes import ROOT, Server
from bench.rows import Row
from bench.run import SIGNERS, Run, get, started_relaydeck
from relaydeck.client import AsyncClient, Client

_AT_MOST_BARE = 1.25
_IMPORT_SECONDS = 0.15
_REQUESTS = 200  # in one slice: short, so that both sides of a pair meet the same machine
_MEASURE = "caller's CPU per list of ten, typed against bytes"
_TIMEOUT = 10.0
_IMPORT = "import time; start = time.process_time(); import relaydeck.client; print(time.process_time() - start)"


def measure(run: Run) -> list[Row]:
    home = make_home(run.folder / "clients", signers=10, relayers=1)
    with ExitStack() as stack:
        server = started_relaydeck(stack, home)
        rows = [_blocking(run, home, server), asyncio.run(_asynchronous(run, home, server))]
    return [*rows, _import(run)]


def expected_seconds(_: object) -> float:
    return 10


def _blocking(run: Run, home: Home, server: Server) -> Row:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=_TIMEOUT)
    request = get(home, SIGNERS)

    def bare() -> None:
        connection.request(request.method, request.path, headers=dict(request.headers))
        connection.getresponse().read()

    pairs = []
    with Client(f"http://127.0.0.1:{server.port}", home.token, timeout=_TIMEOUT) as client:
        for _ in range(_slices(run)):
            pairs.append((_seconds(client.list_signers), _seconds(bare)))
    connection.close()
    return _row(run, "Client.list_signers", "http.client", pairs)


async def _asynchronous(run: Run, home: Home, server: Server) -> Row:
    url, headers = f"http://127.0.0.1:{server.port}{SIGNERS}", dict(get(home, SIGNERS).headers)
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
    pairs = []
    async with (
        aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
        AsyncClient(f"http://127.0.0.1:{server.port}", home.token, timeout=_TIMEOUT) as client,
    ):

        async def bare() -> None:
            async with session.get(url, headers=headers, allow_redirects=False) as answer:
                await answer.read()

        for _ in range(_slices(run)):
            pairs.append((await _async_seconds(client.list_signers), await _async_seconds(bare)))
    return _row(run, "AsyncClient.list_signers", "aiohttp", pairs)


def _slices(run: Run) -> int:
    return 5 * run.pace.rounds


def _seconds(work: Callable[[], object]) -> float:
    """CPU of this thread alone: the progress bar has one of its own."""
    started = time.thread_time()
    for _ in range(_REQUESTS):
        work()
    return time.thread_time() - started


async def _async_seconds(work: Callable[[], Awaitable[object]]) -> float:
    started = time.thread_time()
    for _ in range(_REQUESTS):
        await work()
    return time.thread_time() - started


def _row(run: Run, what: str, library: str, pairs: list[tuple[float, float]]) -> Row:
    ours, bare = (median(each) * 1e6 / _REQUESTS for each in zip(*pairs, strict=True))
    run.small_print.append(f"{what}: {ours:.0f} µs CPU, {library} alone: {bare:.0f} µs")
    run.advance(3)
    return Row(what, f"{library}, the body read and not decoded", _MEASURE, ratio_of(pairs), at_most=_AT_MOST_BARE)


def _import(run: Run) -> Row:
    shares = sorted(_import_seconds() / _IMPORT_SECONDS for _ in range(run.pace.starts))
    middle = median(shares)
    run.small_print.append(f"import relaydeck.client: {middle * _IMPORT_SECONDS * 1000:.0f} ms CPU")
    against = f"{_IMPORT_SECONDS * 1000:.0f} ms"
    return Row("import relaydeck.client", against, "CPU, as a share", Ratio(middle, shares[0], shares[-1]), at_most=1)


def _import_seconds() -> float:
    ran = subprocess.run([sys.executable, "-c", _IMPORT], cwd=ROOT, capture_output=True, text=True, check=True)
    return float(ran.stdout)
