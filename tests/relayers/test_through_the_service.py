"""The whole way: a served home, nodes, a webhook, all on real sockets. Nodes die and come back while it runs."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from relaydeck.networks.model import RpcUrl
from relaydeck.notifications import notification_changes
from relaydeck.notifications.model import Notification
from relaydeck.relayers import relayer_rows
from relaydeck.relayers.model import Policies
from tests.node.process import HARDHAT
from tests.node.process import running as running_node
from tests.support.fault_node import FaultNode, fault_nodes
from tests.support.receiver import Receiver
from tests.support.running import Running, run_command
from tests.support.seeding import fill, issue, opened, relayer
from tests.support.stored_rows import create_row

QUICK = {
    "monitor_interval_seconds": "0.2",
    # A busy machine may be slow, and nodes that are gone refuse at once.
    "lease_seconds": "60",
    "rpc_deadline_seconds": "60",
    "rpc_try_timeout_seconds": "30",
    "webhook_allow": "127.0.0.0/8",
}
HEALTHY = {"eth_getTransactionCount": "0x7", "eth_getBalance": "0x64"}


def provision(home: Path, receiver: Receiver, *urls: str, **given: Any) -> None:
    """One relayer, `r1`, with events sent to the receiver."""
    fill(home)
    reported = relayer("r1", notification_id="pager", custom_rpc_urls=tuple(RpcUrl(url) for url in urls), **given)
    with opened(home) as store, store.database.transaction() as transaction:
        pager = Notification("pager", "webhook", receiver.url, has_signing_key=False)
        create_row(notification_changes.TABLE, transaction, store.vault, pager)
        create_row(relayer_rows.TABLE, transaction, store.vault, reported)


@asynccontextmanager
async def served(home: Path, *arguments: str, **settings: str) -> AsyncIterator[Running]:
    token = issue(home, "root", "admin")
    running = await asyncio.to_thread(lambda: Running(home, *arguments, token=token, **(QUICK | settings)))
    try:
        yield running
    finally:
        await asyncio.to_thread(running.stop)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = await Receiver().start()
    yield receiver
    await receiver.stop()


async def until(happened: Callable[[], bool], running: Running) -> None:
    """For what the service does by itself, in real time."""
    try:
        async with asyncio.timeout(60):
            while not happened():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"it did not happen: {running.log}") from None


async def shown(running: Running) -> dict[str, Any]:
    answer = await asyncio.to_thread(running.ask, "GET", "/api/v1/relayers")
    (relayer,) = answer.json["data"]
    return dict(relayer)


def kinds(receiver: Receiver) -> list[str]:
    return [each.json["type"] for each in receiver.got]


async def rounds(node: FaultNode, running: Running, count: int = 5) -> None:
    """So many more looks of the monitor at a node."""
    before = node.calls["eth_getTransactionCount"]
    await until(lambda: node.calls["eth_getTransactionCount"] >= before + count, running)


async def test_a_real_node_dies_and_comes_back_and_each_is_told_once(home: Path, receiver: Receiver) -> None:
    """The address has nothing on a fresh chain, so a low balance shows that the node was read first."""
    with ExitStack() as nodes:
        url = nodes.enter_context(running_node(HARDHAT))
        port = int(url.rpartition(":")[2])
        provision(home, receiver, f"{url}/v2/secret-key", policies=Policies(min_balance=1))
        async with served(home, "--workers", "2") as running:
            await until(lambda: kinds(receiver) == ["relayer.low_balance"], running)
            nodes.close()
            await until(lambda: len(receiver.got) == 2, running)
            disabled = await shown(running)
            nodes.enter_context(running_node(HARDHAT, port))
            await until(lambda: len(receiver.got) == 3, running)
            enabled = await shown(running)
    reason = disabled.pop("disabled_reason")
    assert (disabled["system_disabled"], reason["type"]) == (True, "NonceSyncFailed")
    assert f": http://127.0.0.1:{port} refused the connection. " in reason["details"]
    assert enabled == disabled | {"system_disabled": False}
    assert kinds(receiver) == ["relayer.low_balance", "relayer.disabled", "relayer.enabled"]
    without_key = {"custom_rpc_urls": [{"url": f"http://127.0.0.1:{port}", "weight": 1}]}
    assert receiver.got[1].json["data"] == {"relayer": disabled | {"disabled_reason": reason} | without_key}
    assert receiver.got[2].json["data"] == {"relayer": enabled | without_key}
    assert "secret-key" not in running.log + "".join(each.body.decode() for each in receiver.got)


async def test_one_bad_url_of_two_is_no_news(home: Path, receiver: Receiver) -> None:
    async with fault_nodes("dead", "healthy") as (bad, good):
        good.answers = HEALTHY
        provision(home, receiver, bad.url, good.url)
        async with served(home) as running:
            await rounds(good, running, 8)
            relayer = await shown(running)
    assert (relayer["system_disabled"], receiver.got) == (False, [])


async def test_a_low_balance_is_told_once_until_it_has_recovered(home: Path, receiver: Receiver) -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = dict(HEALTHY)
        provision(home, receiver, node.url, policies=Policies(min_balance=1000))
        async with served(home) as running:
            await until(lambda: len(receiver.got) == 1, running)
            await rounds(node, running)
            node.answers["eth_getBalance"] = hex(1000)
            await rounds(node, running)
            node.answers["eth_getBalance"] = "0x0"
            await until(lambda: len(receiver.got) == 2, running)
            await rounds(node, running)
    assert [each.json["data"]["details"] for each in receiver.got] == [
        {"balance": "100", "min_balance": "1000"},
        {"balance": "0", "min_balance": "1000"},
    ]


async def test_a_paused_relayer_is_not_asked_about(home: Path, receiver: Receiver) -> None:
    async with fault_nodes("healthy", "healthy") as (node, other):
        node.answers = other.answers = HEALTHY
        provision(home, receiver, node.url, paused=True)
        busy = relayer("r2", custom_rpc_urls=(RpcUrl(other.url),))
        with opened(home) as store, store.database.transaction() as transaction:
            create_row(relayer_rows.TABLE, transaction, store.vault, busy)
        async with served(home) as running:
            await rounds(other, running)
            assert node.requests == 0
            await asyncio.to_thread(run_command, home, "relayer", "resume", "r1")
            await rounds(node, running, 2)


async def test_a_relayer_that_is_created_while_it_runs_is_watched(home: Path, receiver: Receiver) -> None:
    fill(home)
    async with fault_nodes("healthy") as (node,), served(home) as running:
        node.answers = HEALTHY
        body = {
            "id": "new",
            "name": "New",
            "network": "dev",
            "network_type": "evm",
            "signer_id": "ops",
            "custom_rpc_urls": [{"url": node.url}],
        }
        created = await asyncio.to_thread(running.ask, "POST", "/admin/v1/relayers", body)
        assert created.status == 201
        await rounds(node, running, 2)


async def test_an_interval_of_zero_switches_it_off(home: Path, receiver: Receiver) -> None:
    async with fault_nodes("healthy") as (node,):
        provision(home, receiver, node.url)
        async with served(home, monitor_interval_seconds="0") as running:
            for _ in range(20):
                await shown(running)
            with opened(home) as store:
                assert store.database.read("SELECT name FROM leases") == []
    assert node.requests == 0


def workers_connected_to(running: Running, port: int) -> list[int]:
    """Which children of the service have a connection to that port, by the kernel's tables."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    connected = {f"socket:[{row[9]}]" for row in rows if int(row[2].split(":")[1], 16) == port}
    parent = running.process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(child) for child in children if connected & _sockets_of(child)]


def _sockets_of(process: str) -> set[str]:
    found = set()
    with suppress(OSError):  # the process may end meanwhile
        for each in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):  # so may the connection
                found.add(os.readlink(each))
    return found


async def test_another_worker_takes_over_when_the_one_that_watches_is_killed(home: Path, receiver: Receiver) -> None:
    async with fault_nodes("healthy") as (node,):
        node.answers = HEALTHY
        provision(home, receiver, node.url)
        async with served(home, "--workers", "2", lease_seconds="5") as running:
            await rounds(node, running)
            (holder,) = await asyncio.to_thread(workers_connected_to, running, node.port)
            os.kill(holder, signal.SIGKILL)
            heirs: list[int] = [holder]
            async with asyncio.timeout(60):
                while heirs in ([], [holder]):
                    heirs = await asyncio.to_thread(workers_connected_to, running, node.port)
                    await asyncio.sleep(0.05)
            await rounds(node, running)
            await node.stop()
            await until(lambda: len(receiver.got) == 1, running)
            await node.start(node.port)
            await until(lambda: len(receiver.got) == 2, running)
            await rounds(node, running)
    assert kinds(receiver) == ["relayer.disabled", "relayer.enabled"]


async def test_a_guarded_service_does_not_connect_to_a_private_node(home: Path, receiver: Receiver) -> None:
    async with fault_nodes("healthy") as (node,):
        provision(home, receiver, node.url)
        async with served(home, rpc_guard="on") as running:
            await until(lambda: len(receiver.got) == 1, running)
    details = receiver.got[0].json["data"]["relayer"]["disabled_reason"]["details"]
    assert f"http://127.0.0.1:{node.port} leads to an address that RELAYDECK_RPC_GUARD refuses. " in details
    assert node.requests == 0
