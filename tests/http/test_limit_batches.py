"""The shared limiter in this process, beside a real Valkey: what it asks, and when it gives up."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from relaydeck.credentials.token_cache import TokenCredential
from relaydeck.credentials.tokens import Token
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.ratelimit import RateLimiter
from relaydeck.http.shared_limits import LimitClient, LimitServerError, SharedLimiter
from relaydeck.log import Log
from relaydeck.secret import Secret
from tests.support.certificates import make_certificate
from tests.support.running import make_token, run_command
from tests.support.steady_loop import skip
from tests.support.valkey import Valkey

RATE, BURST = 1, 40
TIMEOUT = 30  # of the server, in seconds


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    server = Valkey(tmp_path)
    yield server
    server.stop()


@pytest.fixture
async def limiter(valkey: Valkey, tmp_path: Path) -> AsyncIterator[SharedLimiter]:
    client = LimitClient(Secret(valkey.url), None, TIMEOUT)
    log = Log(as_json=True, level="error")
    local = RateLimiter(tmp_path / "limits", RATE, 1000)  # so large that an answer of its own is known by what remains
    shared = SharedLimiter(client, local, RATE, BURST, log, Metrics(tmp_path / "metrics"), probe_seconds=0.01)
    yield shared
    await shared.close()


def credential(number: int) -> TokenCredential:
    return TokenCredential(Token(number, f"t{number}", "api", bytes([number]) * 32, 0, None, None), f"token:t{number}")


def questions(valkey: Valkey) -> int:
    return int(valkey.ask("INFO", "commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"])


async def test_those_who_ask_at_once_are_asked_for_in_one_question(limiter: SharedLimiter, valkey: Valkey) -> None:
    await limiter.take(credential(9))
    before = questions(valkey)
    decisions = await asyncio.gather(*(limiter.take(credential(number % 3)) for number in range(150)))
    assert questions(valkey) - before == 1
    assert [decision[0] for decision in decisions].count(True) == 3 * BURST


async def test_each_of_them_is_told_its_own_place(limiter: SharedLimiter) -> None:
    decisions = await asyncio.gather(*(limiter.take(credential(1)) for _ in range(BURST + 1)))
    expected = [(True, BURST - 1 - place, place + 1, 0) for place in range(BURST - 1)]
    assert decisions == [*expected, (True, 0, BURST, 1), (False, 0, BURST, 1)]


async def test_one_who_went_away_hinders_nobody(limiter: SharedLimiter) -> None:
    gone = asyncio.create_task(limiter.take(credential(1)))
    stays = asyncio.create_task(limiter.take(credential(1)))
    await asyncio.sleep(0)
    gone.cancel()
    assert (await stays)[1] == BURST - 2


async def test_a_question_under_way_when_the_server_dies_is_answered_by_the_machine(
    limiter: SharedLimiter, valkey: Valkey
) -> None:
    await limiter.take(credential(1))
    with valkey.frozen():
        waiting = asyncio.create_task(limiter.take(credential(1)))
        while not limiter._waiting:
            await asyncio.sleep(0)
        while limiter._waiting:
            await asyncio.sleep(0)
        skip(TIMEOUT)
        assert (await waiting)[1] == 999


async def test_a_process_that_stood_still_itself_reads_the_answer_before_it_gives_up(
    limiter: SharedLimiter, valkey: Valkey
) -> None:
    await limiter.take(credential(1))
    before = questions(valkey)
    waiting = asyncio.create_task(limiter.take(credential(1)))
    while questions(valkey) == before:
        await asyncio.sleep(0)
    skip(TIMEOUT)  # longer than the server may take; it has answered
    assert (await waiting)[1] < BURST


async def test_what_waits_when_the_service_stops_is_answered(limiter: SharedLimiter, valkey: Valkey) -> None:
    await limiter.take(credential(1))
    with valkey.frozen():
        waiting = asyncio.create_task(limiter.take(credential(1)))
        await asyncio.sleep(0)
        await limiter.close()
        assert (await waiting)[1] == 999


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        (["+eval", "+evalsha", "-auth"], ""),
        (["-eval"], "its user lacks the permission to run the script"),
    ],
)
async def test_a_user_of_few_rights_is_enough(valkey: Valkey, rules: list[str], problem: str) -> None:
    needed = ["on", ">secret", "~{relaydeck}:limit:*", "+get", "+set", "+time"]
    valkey.ask("ACL", "SETUSER", "limits", *needed, *rules)
    client = LimitClient(Secret(f"redis://limits:secret@127.0.0.1:{valkey.port}"), None, timeout_seconds=TIMEOUT)
    assert await asked(client) == problem


async def asked(client: LimitClient) -> str:
    try:
        await client.connect()
        assert await client.take(1, 5, {"{relaydeck}:limit:a": 1}) == [5_000_000]
    except LimitServerError as problem:
        return str(problem)
    finally:
        await client.close()
    return ""


async def test_a_server_of_another_kind_is_told_of(tmp_path: Path, valkey: Valkey) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        client = LimitClient(Secret(f"redis://127.0.0.1:{port}"), None, timeout_seconds=TIMEOUT)
        assert (await asked(client)).startswith("it ")


async def test_a_password_file_that_is_not_there_is_told_of(tmp_path: Path, valkey: Valkey) -> None:
    client = LimitClient(Secret(valkey.url), tmp_path / "none", timeout_seconds=TIMEOUT)
    assert await asked(client) == "a file that the connection needs cannot be read"


@asynccontextmanager
async def tls_in_front(port: int, certificate: Path) -> AsyncIterator[int]:
    """Ends TLS in front of the server, which is built without it."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, to_server), pump(from_server, writer))

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    async with await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context) as front:
        yield front.sockets[0].getsockname()[1]


async def test_a_server_behind_tls_is_asked_only_when_its_authority_is_known(tmp_path: Path, valkey: Valkey) -> None:
    authority = make_certificate(tmp_path, "authority")
    async with tls_in_front(valkey.port, make_certificate(tmp_path, "localhost", authority)) as port:
        known = f"rediss://localhost:{port}/0?ssl_ca_certs={authority}"
        outcomes = [
            await asked(LimitClient(Secret(url), None, timeout_seconds=TIMEOUT))
            for url in (known, f"valkeys://localhost:{port}", known.replace("localhost", "127.0.0.1", 1))
        ]
        make_token(tmp_path / "home", "t")
        examined = await asyncio.to_thread(run_command, tmp_path / "home", "doctor", limits_url=known)
    assert outcomes == ["", *["the TLS handshake failed: check its certificate, and that it uses TLS"] * 2]
    assert f"shared limits rediss://localhost:{port}: it responds" in examined.stdout
