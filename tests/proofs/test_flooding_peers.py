"""No peer that Relaydeck calls holds the event loop for more than 100 ms, whatever it sends."""

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_network
from typing import Any

import pytest
import uvloop

from relaydeck.networks.evm.client import Client
from relaydeck.networks.evm.connections import Connections
from relaydeck.networks.evm.errors import NodeError, UrlFailed, error_kind
from relaydeck.networks.evm.questions import BLOCK_NUMBER
from relaydeck.networks.model import RpcUrl
from relaydeck.networks.node_rule import UNGUARDED
from relaydeck.notifications.sender import Sender
from tests.proofs.flooding_peer import HTTP_FLOODS, RPC_FLOODS, WEBSOCKET_FLOODS
from tests.running import pipes

pytestmark = pytest.mark.prove
SECONDS, CALLS = 1.5, 8
# A few measurements have one turn of about 0.1 s; usually the longest takes 0.005 s. The cause is not known.
# What a peer causes each time is still found.
ATTEMPTS = 3
LONGEST_TURN = 0.1
Call = Callable[[], Awaitable[object]]


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
    """It would take time for all that this process has loaded, whichever connection it interrupts."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@contextmanager
def flooding(kind: str) -> Iterator[int]:
    command = [sys.executable, "-m", "tests.proofs.flooding_peer", kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
        try:
            yield int(pipes(peer)[1].readline())
        finally:
            peer.kill()


async def repeat(call: Call) -> None:
    while True:
        with suppress(UrlFailed, TimeoutError):
            async with asyncio.timeout(1.0):
                await call()
        await asyncio.sleep(0)


async def longest_turn(call: Call) -> float:
    """The most processor time between two turns of this task: time that the calls held the loop."""
    calls = [asyncio.create_task(repeat(call)) for _ in range(CALLS)]
    longest, began = 0.0, time.monotonic()
    while time.monotonic() - began < SECONDS:
        before = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - before)
    assert not any(each.done() for each in calls)
    for each in calls:
        each.cancel()
    await asyncio.wait(calls)
    return longest


def holds_the_loop(measure: Callable[[], Coroutine[Any, Any, float]]) -> bool:
    return all(uvloop.run(measure()) >= LONGEST_TURN for _ in range(ATTEMPTS))


async def of_receiver(port: int) -> float:
    sender = Sender([ip_network("127.0.0.0/8")], 1.0)
    try:
        return await longest_turn(lambda: sender.post(f"http://127.0.0.1:{port}/", {}, b"{}"))
    finally:
        await sender.close()


async def of_node(scheme: str, port: int) -> float:
    connections = Connections(1 << 20, UNGUARDED)
    url = RpcUrl(f"{scheme}://127.0.0.1:{port}/")
    try:
        return await longest_turn(lambda: connections.send(url, b"{}", [1]))
    finally:
        await connections.close()


async def of_rpc(scheme: str, port: int) -> float:
    client, read = Client(1 << 20), 0
    url = RpcUrl(f"{scheme}://127.0.0.1:{port}/")

    async def ask() -> None:
        nonlocal read
        try:
            await client.ask(url, BLOCK_NUMBER)
        except NodeError as error:
            error_kind(error)  # as the pool does
            read += 1

    try:
        longest = await longest_turn(ask)
    finally:
        await client.close()
    assert read > 0
    return longest


@pytest.mark.parametrize("kind", HTTP_FLOODS)
def test_a_receiver_that_floods_does_not_hold_the_event_loop(kind: str) -> None:
    with flooding(kind) as port:
        assert not holds_the_loop(lambda: of_receiver(port))


@pytest.mark.parametrize("kind", HTTP_FLOODS | WEBSOCKET_FLOODS)
def test_a_node_that_floods_does_not_hold_the_event_loop(kind: str) -> None:
    with flooding(kind) as port:
        assert not holds_the_loop(lambda: of_node("ws" if kind in WEBSOCKET_FLOODS else "http", port))


@pytest.mark.parametrize("scheme", ["http", "ws"])
@pytest.mark.parametrize("kind", RPC_FLOODS)
def test_a_node_with_large_answers_does_not_hold_the_event_loop(kind: str, scheme: str) -> None:
    with flooding(kind) as port:
        assert not holds_the_loop(lambda: of_rpc(scheme, port))
