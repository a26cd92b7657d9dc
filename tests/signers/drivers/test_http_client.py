"""How requests reach a key system: over verified TLS or loopback, past the address guard, and never redirected."""

import ssl
from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web

from relaydeck.settings.model import Settings
from relaydeck.signers.drivers.driver_errors import ConfigUnusable, KeySystemUnreachable
from relaydeck.signers.drivers.http_client import KeySystemClient
from relaydeck.signers.drivers.interface import HttpAnswer
from tests.support.certificates import make_certificate


async def _answer(request: web.BaseRequest) -> web.Response:
    if request.path == "/redirect":
        return web.Response(status=302, headers={"Location": "/"})
    return web.json_response({"path": request.path})


class Server:
    def __init__(self, port: int, certificate: Path) -> None:
        self.port = port
        self.certificate = certificate


async def _serve(tls: ssl.SSLContext | None) -> tuple[web.ServerRunner, int]:
    runner = web.ServerRunner(web.Server(_answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    return runner, runner.addresses[0][1]


@pytest_asyncio.fixture
async def plain() -> AsyncIterator[int]:
    runner, port = await _serve(None)
    yield port
    await runner.cleanup()


@pytest_asyncio.fixture
async def secure(tmp_path: Path) -> AsyncIterator[Server]:
    certificate = make_certificate(tmp_path, "localhost")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    runner, port = await _serve(tls)
    yield Server(port, certificate)
    await runner.cleanup()


async def ask(url: str, settings: Settings | None = None, *, private: bool = True) -> HttpAnswer:
    client = KeySystemClient(settings or Settings(), private=private)
    try:
        return await client.send("GET", url, {})
    finally:
        await client.close()


async def test_loopback_may_be_asked_without_tls(plain: int) -> None:
    assert await ask(f"http://127.0.0.1:{plain}/x") == HttpAnswer(200, b'{"path": "/x"}')


@pytest.mark.parametrize("url", ["http://vault.example.com:8200/", "http://10.0.0.1/", "ftp://x/", "no address", ""])
async def test_nothing_is_sent_in_the_clear(url: str) -> None:
    with pytest.raises(ConfigUnusable):
        await ask(url)


async def test_an_unknown_certificate_is_refused(secure: Server) -> None:
    with pytest.raises(KeySystemUnreachable, match="certificate does not verify"):
        await ask(f"https://localhost:{secure.port}/")


async def test_a_private_authority_is_trusted_once_it_is_named(secure: Server) -> None:
    answer = await ask(f"https://localhost:{secure.port}/x", Settings(driver_ca_file=secure.certificate))
    assert answer.status == 200


async def test_the_certificate_must_name_the_host(secure: Server) -> None:
    with pytest.raises(KeySystemUnreachable, match="certificate does not verify"):
        await ask(f"https://127.0.0.1:{secure.port}/", Settings(driver_ca_file=secure.certificate))


async def test_the_address_guard_refuses_what_is_not_public(plain: int) -> None:
    with pytest.raises(KeySystemUnreachable, match="neither RELAYDECK_DRIVER_ALLOW nor an endpoint"):
        await ask(f"http://127.0.0.1:{plain}/", private=False)


async def test_the_address_guard_lets_allowed_addresses_pass(plain: int) -> None:
    answer = await ask(f"http://127.0.0.1:{plain}/", Settings(driver_allow=(ip_network("127.0.0.0/8"),)), private=False)
    assert answer.status == 200


async def test_a_redirect_is_not_followed(plain: int) -> None:
    assert (await ask(f"http://127.0.0.1:{plain}/redirect")).status == 302
