"""Nodes over WebSockets, and nodes that require headers: geth itself, geth behind a proxy with TLS, and stand-ins."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeOptions
from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.errors import AnswerTooLarge, NodeError, UrlFailed
from relaydeck.networks.evm.options import PoolOptions
from relaydeck.networks.evm.pool import NodePool
from relaydeck.networks.evm.questions import BLOCK_NUMBER, CHAIN_ID, Question, read_quantity
from relaydeck.networks.model import Network, NodeHeader, RpcUrl
from relaydeck.outgoing.connections import system_authorities
from relaydeck.secret import Secret
from tests.networks.gate import Gate, make_certificate
from tests.networks.websocket_node import WebSocketNode
from tests.node.process import running_geth
from tests.support.fee_scene import ask, network, transaction

GETH_CHAIN = 1337
KEY = "Bearer hunter2-token"
LIMIT = 1 << 20


@pytest.fixture(scope="module")
def geth() -> Iterator[str]:
    with running_geth() as url:
        yield url


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new one that this process trusts."""
    made = make_certificate(tmp_path_factory.mktemp("tls") / "both.pem")
    system_authorities().load_verify_locations(made)
    return made


@asynccontextmanager
async def connected() -> AsyncIterator[Client]:
    client = Client(LIMIT)
    try:
        yield client
    finally:
        await client.close()


def keyed(url: str, value: str = KEY) -> RpcUrl:
    return RpcUrl(url, headers=(NodeHeader("Authorization", Secret(value)),))


def on_geth(url: RpcUrl) -> Network:
    return replace(network(chain_id=GETH_CHAIN), rpc_urls=(url,))


async def fees_of(*urls: RpcUrl) -> list[Decimal]:
    estimator = Estimator(FeeOptions(deadline=20.0))
    try:
        answers = [await ask(estimator, on_geth(url), transaction(chain_id=GETH_CHAIN)) for url in urls]
        return [Decimal(each.estimated_fee) for each in answers]
    finally:
        await estimator.close()


# -- the real node --------------------------------------------------------------------------------


async def test_an_estimate_over_a_websocket_is_that_over_http(geth: str) -> None:
    over_http, over_websocket = await fees_of(RpcUrl(geth), RpcUrl(geth.replace("http", "ws")))
    assert over_http == over_websocket > 0


@pytest.mark.parametrize("scheme", ["http", "ws", "https", "wss"])
async def test_a_node_that_requires_a_header(geth: str, certificate: Path, scheme: str) -> None:
    async with Gate(
        geth, f"Authorization: {KEY}", certificate if scheme.endswith("s") and scheme != "ws" else None
    ) as gate:
        (plain,) = await fees_of(RpcUrl(geth))
        (behind,) = await fees_of(keyed(f"{scheme}://localhost:{gate.port}"))
        assert (behind, gate.refused) == (plain, 0)


@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_another_value_of_the_header_is_refused_in_the_same_words(geth: str, scheme: str) -> None:
    async with Gate(geth, f"Authorization: {KEY}") as gate, connected() as client:
        with pytest.raises(UrlFailed, match=r"^answered HTTP 401$"):
            await client.ask(keyed(f"{scheme}://localhost:{gate.port}", "Bearer another"), CHAIN_ID)


async def test_a_certificate_that_is_not_trusted(geth: str, tmp_path: Path) -> None:
    async with Gate(geth, "", make_certificate(tmp_path / "unknown.pem")) as gate, connected() as client:
        with pytest.raises(UrlFailed, match=r"^failed the TLS handshake$"):
            await client.ask(RpcUrl(f"wss://localhost:{gate.port}"), CHAIN_ID)


async def test_many_requests_share_one_connection(geth: str) -> None:
    async with Gate(geth, f"Authorization: {KEY}") as gate, connected() as client:
        url = keyed(f"ws://localhost:{gate.port}")
        singles = asyncio.gather(*(client.ask(url, CHAIN_ID) for _ in range(200)))
        batches = asyncio.gather(*(client.ask_batch(url, (CHAIN_ID, BLOCK_NUMBER)) for _ in range(20)))
        assert (await singles, await batches) == ([GETH_CHAIN] * 200, [[GETH_CHAIN, 0]] * 20)
        assert gate.accepted == 1


async def test_an_error_of_the_node_is_an_error_of_the_question(geth: str) -> None:
    async with connected() as client:
        with pytest.raises(NodeError) as failure:
            await client.ask(RpcUrl(geth.replace("http", "ws")), Question("eth_nothing", (), read_quantity))
    assert failure.value.code == -32601


# -- faults ---------------------------------------------------------------------------------------


async def reason_of_failure(mood: str) -> str:
    async with WebSocketNode(mood) as node, connected() as client:
        with pytest.raises(UrlFailed) as failure:
            await client.ask(RpcUrl(node.url), CHAIN_ID)
    return failure.value.reason


@pytest.mark.parametrize(
    ("mood", "words"),
    [
        ("garbage", "answered something other than a JSON-RPC response"),
        ("huge", f"answered more than {LIMIT} bytes"),
        ("closes", "closed the connection early"),
        ("http_401", "answered HTTP 401"),
        ("http_200", "did not open a WebSocket"),
        ("redirects", "answered HTTP 302"),
        ("floods", "sends messages that answer no request"),
        ("pings", "sends messages that answer no request"),
    ],
)
async def test_the_words_for_a_fault(mood: str, words: str) -> None:
    assert await reason_of_failure(mood) == words


async def test_a_pause_that_the_handshake_requests() -> None:
    async with WebSocketNode("http_429") as node, connected() as client:
        with pytest.raises(UrlFailed) as failure:
            await client.ask(RpcUrl(node.url), CHAIN_ID)
    assert (failure.value.reason, failure.value.busy, failure.value.wait) == ("answered HTTP 429", True, 7.0)


async def test_a_ping_is_answered() -> None:
    async with WebSocketNode("pings_first") as node, connected() as client:
        assert await client.ask(RpcUrl(node.url), CHAIN_ID) == 31337


async def test_a_connection_that_breaks_before_the_answer_to_a_ping_leaves_nothing_unhandled() -> None:
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    reason = await reason_of_failure("resets")
    gc.collect()  # an exception that nobody retrieved is reported when its task is collected
    assert (reason, unhandled) == ("closed the connection early", [])


async def test_a_connection_that_ended_is_opened_again() -> None:
    async with WebSocketNode() as node, connected() as client:
        first = await client.ask(RpcUrl(node.url), CHAIN_ID)
        await node.drop_connections()
        second = await client.ask(RpcUrl(node.url), CHAIN_ID)
    assert (first, second, node.connections) == (31337, 31337, 2)


async def test_a_request_that_ends_the_connection_fails_alone() -> None:
    poison: Question[int] = Question("eth_chainId", ("poison",), read_quantity)
    async with WebSocketNode() as node, connected() as client:
        url, node.poison = RpcUrl(node.url), "poison"
        await client.ask(url, CHAIN_ID)
        questions = [poison if number % 5 == 0 else CHAIN_ID for number in range(50)]
        found = await asyncio.gather(*(client.ask(url, each) for each in questions), return_exceptions=True)
    failed = [isinstance(each, UrlFailed) for each in found]
    assert failed == [each is poison for each in questions]


async def test_an_answer_that_is_too_large_fails_alone() -> None:
    async with WebSocketNode("huge") as node, connected() as client:
        with pytest.raises(AnswerTooLarge):
            await client.ask(RpcUrl(node.url), CHAIN_ID)
        node.mood = "healthy"
        assert await client.ask(RpcUrl(node.url), CHAIN_ID) == 31337


@pytest.mark.parametrize(
    ("mood", "words"), [("wrong_chain", "is on chain id 1, not 31337"), ("hangs", "timed out"), ("healthy", "")]
)
async def test_a_pool_probes_it_like_any_other(mood: str, words: str) -> None:
    async with WebSocketNode(mood) as node, connected() as client:
        pool = NodePool([RpcUrl(node.url)], 31337, client, PoolOptions(try_timeout=0.2, deadline=0.2))
        (evidence,) = await pool.probe_each()
        await pool.close()
    assert (evidence.error, evidence.node) == (words, node.url.removesuffix("/v2/secret-key"))


async def test_a_connection_on_which_nothing_arrives_is_left() -> None:
    async with WebSocketNode("hangs") as node, connected() as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.ask(RpcUrl(node.url), CHAIN_ID)
        node.mood = "healthy"
        assert (await client.ask(RpcUrl(node.url), CHAIN_ID), node.connections) == (31337, 2)


# -- secrets --------------------------------------------------------------------------------------


def test_no_text_of_an_entry_contains_the_value() -> None:
    url = keyed("wss://node.example/v2/secret-key")
    assert "hunter2" not in f"{url} {url!r} {url.headers!r} {url.redacted!r}"
    assert url.shown == "wss://node.example"
