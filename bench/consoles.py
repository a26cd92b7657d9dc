"""The console: a page over the list of the admin API that it shows, and lists while consoles are open."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from urllib.parse import urlencode

from bench.comparing import Side, ratio_of
from bench.console import add_history, slowest_page
from bench.homes import Home, change, make_home
from bench.load import Request
from bench.pages import large_home
from bench.processes import Server
from bench.rows import CPU, THROUGHPUT, Row
from bench.run import RELAYERS, Pace, Run, get, started_relaydeck
from bench.service import await_quiet
from relaydeck.credentials import tokens
from relaydeck.credentials.tokens import new_token
from relaydeck.roles import Role
from relaydeck.store.database import Transaction
from relaydeck.store.vault import Vault

_CONSOLES, _SESSIONS = 200, 20  # a token has at most so many sessions, and a session eight streams
_REQUESTS = 100  # of one side in one round
_AT_MOST = 3.0
_AT_LEAST = 0.9
_RETRY_SECONDS = 0.5  # as long as a browser waits before it opens a stream again
_OPEN_SECONDS = 60.0


def expected_seconds(pace: Pace) -> float:
    return 2 * pace.rounds * pace.seconds + 2 * pace.fresh_seconds


def measure(run: Run) -> list[Row]:
    return [_page_row(run), *_slowest_pages(run), _open_consoles_row(run)]


def _slowest_pages(run: Run) -> Iterator[Row]:
    for home, allowed in ((make_home(run.folder / "fleet", signers=10, relayers=200), 150), (large_home(run), 400)):
        add_history(home)
        token = _admin_token(home, "pages")
        with ExitStack() as stack:
            server = started_relaydeck(stack, home, RELAYERS)
            await_quiet(server)
            headers = {"Cookie": _sign_in(server, token), "Authorization": f"Bearer {token}"}
            yield slowest_page(run, server, headers, home.relayers, allowed)


def _page_row(run: Run) -> Row:
    home = large_home(run)
    token = _admin_token(home)
    with ExitStack() as stack:
        server = started_relaydeck(stack, home, RELAYERS)
        await_quiet(server)
        page = Request("GET", "/console/relayers", {"Cookie": _sign_in(server, token)})
        listed = Request("GET", "/admin/v1/relayers?per_page=50", {"Authorization": f"Bearer {token}"})
        pairs = [_cpu_of_both(run, server, page, listed) for _ in range(run.pace.rounds)]
    what = f"console, page of relayers, {home.relayers:,} of them"
    return Row(what, "the same list of the admin API", CPU, ratio_of(pairs), at_most=_AT_MOST)


def _cpu_of_both(run: Run, server: Server, page: Request, listed: Request) -> tuple[float, float]:
    """One request after the other: under a load, the requests that one side leaves behind would count for the next."""
    figures = (_cpu_seconds(server, page), _cpu_seconds(server, listed))
    run.advance(2 * run.pace.seconds)
    return figures


def _cpu_seconds(server: Server, request: Request) -> float:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=_OPEN_SECONDS)
    before = server.cpu_seconds()
    for _ in range(_REQUESTS):
        connection.request(request.method, request.path, headers=request.headers)
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise RuntimeError(f"{request.path} was answered with {response.status}")
    connection.close()
    return server.cpu_seconds() - before


def _open_consoles_row(run: Run) -> Row:
    watched, alone = (make_home(run.folder / name, signers=10, relayers=10) for name in ("watched", "alone"))
    tokens = [_admin_token(watched, f"console {number}") for number in range(_CONSOLES // _SESSIONS)]

    def sides(stack: ExitStack) -> list[Side]:
        servers = [started_relaydeck(stack, home, RELAYERS) for home in (watched, alone)]
        cookies = [_sign_in(servers[0], token) for token in tokens for _ in range(_SESSIONS)]
        stack.enter_context(_open_consoles(servers[0], cookies))
        return [
            Side("watched", servers[0], get(watched, RELAYERS)),
            Side("alone", servers[1], get(alone, RELAYERS)),
        ]

    found = run.compare_fresh("open consoles", sides)
    what = f"list-relayers, {_CONSOLES} consoles open while nothing changes"
    return Row(what, "the same without them", THROUGHPUT, found.throughput("watched", "alone"), at_least=_AT_LEAST)


def _admin_token(home: Home, name: str = "console") -> str:
    token = new_token()

    def add(transaction: Transaction, vault: Vault) -> None:
        tokens.add(transaction, vault.proofs, name, Role.ADMIN, token, now=int(time.time()))

    change(home, add)
    return token.reveal()


def _sign_in(server: Server, token: str) -> str:
    """The cookie of a new session."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=_OPEN_SECONDS)
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{server.port}"}
    connection.request("POST", "/console/sign-in", urlencode({"token": token}), headers)
    response = connection.getresponse()
    cookie = response.getheader("set-cookie")
    connection.close()
    if response.status != 303 or cookie is None:
        raise RuntimeError(f"the console refused to sign in: {response.status}")
    return cookie.partition(";")[0]


@contextmanager
def _open_consoles(server: Server, cookies: Sequence[str]) -> Iterator[None]:
    """Streams of live updates, opened again when the server ends them, as browsers do."""
    opened, closing = threading.Semaphore(0), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_stay_all_open(server, cookies, opened, closing)))
    thread.start()
    try:
        for _ in cookies:
            if not opened.acquire(timeout=_OPEN_SECONDS):
                raise RuntimeError("not every console got its stream")
        yield
    finally:
        closing.set()
        thread.join()


async def _stay_all_open(
    server: Server, cookies: Sequence[str], opened: threading.Semaphore, closing: threading.Event
) -> None:
    consoles = [asyncio.create_task(_stay_open(server, each, opened)) for each in cookies]
    await asyncio.to_thread(closing.wait)
    for each in consoles:
        each.cancel()
    await asyncio.gather(*consoles, return_exceptions=True)


async def _stay_open(server: Server, cookie: str, opened: threading.Semaphore) -> None:
    request = f"GET /console/live HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nCookie: {cookie}\r\n\r\n"
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request.encode())
        async for line in reader:
            if line.startswith(b"data: "):
                opened.release()
            elif line == b"0\r\n":  # the last chunk: the stream has ended
                break
        writer.close()
        await asyncio.sleep(_RETRY_SECONDS)
