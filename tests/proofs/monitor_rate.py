"""Measures the monitor: how many relayers processes check in a second, with how many requests, and in how much memory.

    python -m tests.proofs.monitor_rate --relayers 20000 --seconds 60
    python -m tests.proofs.monitor_rate --relayers 1000000 --seconds 60 --interval 60 --node stand-in
    python -m tests.proofs.monitor_rate --relayers 200000 --interval 20 --node stand-in --latency 0.5 --processes 2

The node is Hardhat, or a stand-in in a process of its own, which answers after `--latency` seconds. The processes share
the database as replicas do, and are measured once each holds its share of the relayers.
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeOptions
from relaydeck.log import Log
from relaydeck.relayers.monitor import SHARDS, Monitor, MonitorOptions
from relaydeck.store.audit import AuditLog
from relaydeck.store.open_store import open_store_at
from relaydeck.store.writer import Writer
from tests.node.process import HARDHAT, running
from tests.support.fault_node import FaultNode
from tests.support.places import ENGINES, choose, place_of
from tests.support.postgres import PostgresServer
from tests.support.seeding import ADDRESS, fill, opened

_COLUMNS = "name network network_type address signer_id paused system_disabled policies origin created_at revision"
_POLICIES = "{}"
_LEASE_SECONDS = 3.0


def provision(home: Path, count: int, node: str) -> None:
    fill(home, node=node)
    columns = ("id", *_COLUMNS.split())
    with opened(home) as store, store.database.transaction() as transaction:
        for start in range(0, count, 10_000):
            rows = [
                (
                    f"r{n}",
                    f"R{n}",
                    "dev",
                    "evm",
                    ADDRESS,
                    "ops",
                    False,
                    False,
                    _POLICIES,
                    "api",
                    0,
                    transaction.revision,
                )
                for n in range(start, min(start + 10_000, count))
            ]
            transaction.insert("relayers", columns, rows)


class _CountingMonitor(Monitor):
    checked = 0

    def _note(self, checked: Any, result: Any) -> bool:
        self.checked += result.nonce is not None
        return super()._note(checked, result)


class Plan(NamedTuple):
    home: Path
    processes: int
    seconds: float
    interval: float
    warm_up: float


async def measure(plan: Plan) -> dict[str, int]:
    requests = 0
    post = aiohttp.ClientSession.post

    def counted(session: aiohttp.ClientSession, *given: Any, **named: Any) -> Any:
        nonlocal requests
        requests += 1
        return post(session, *given, **named)

    aiohttp.ClientSession.post = counted  # type: ignore[method-assign,assignment]
    store = open_store_at(plan.home, place_of(plan.home), plan.home / "master.key")
    writer, estimator = Writer(store.database), Estimator(FeeOptions())
    options = MonitorOptions(interval=plan.interval, lease_seconds=_LEASE_SECONDS)
    log = Log(as_json=True, level="error")
    monitor = _CountingMonitor(store, writer, AuditLog(store.vault), log, estimator.pool, options)
    monitor.replace(monitor.read_all(store.database))
    share = SHARDS // plan.processes
    while not share <= len(monitor._leases.fences) <= share + 1 or monitor._leaving:
        await asyncio.sleep(0.1)
    await asyncio.sleep(plan.warm_up)  # until the others have theirs too, and connections are open
    earlier, asked = monitor.checked, requests
    before, started = time.process_time(), time.monotonic()
    await asyncio.sleep(plan.seconds)
    taken, used = time.monotonic() - started, time.process_time() - before
    found = {"checks": monitor.checked - earlier, "requests": requests - asked}
    await monitor.close()
    await estimator.close()
    await writer.stop()
    store.close()
    return found | {
        "checks_per_second": round(found["checks"] / taken),
        "core_percent": round(100 * used / taken),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _run(plan: Plan, results: Any) -> None:
    results.put(asyncio.run(measure(plan)))


def measure_all(plan: Plan) -> list[dict[str, int]]:
    results: Any = multiprocessing.Queue()
    processes = [multiprocessing.Process(target=_run, args=(plan, results)) for _ in range(plan.processes)]
    for each in processes:
        each.start()
    found = [results.get() for _ in processes]
    for each in processes:
        each.join()
    return found


async def _serve(port: Any, latency: float) -> None:
    node = FaultNode()
    node.delay = latency
    node.answers = {"eth_getTransactionCount": "0x7", "eth_getBalance": "0xde0b6b3a7640000"}
    await node.start()
    port.put(node.port)
    await asyncio.sleep(3600)


def _stand_in(port: Any, latency: float) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # whatever the process that started it does then
    asyncio.run(_serve(port, latency))


@contextmanager
def node_url(kind: str, latency: float) -> Iterator[str]:
    if kind == "hardhat":
        with running(HARDHAT) as url:
            yield url
        return
    port: Any = multiprocessing.Queue()
    process = multiprocessing.Process(target=_stand_in, args=(port, latency), daemon=True)
    process.start()
    yield f"http://127.0.0.1:{port.get()}"
    process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--relayers", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--interval", type=float, default=60.0)
    parser.add_argument("--node", choices=("hardhat", "stand-in"), default="hardhat")
    parser.add_argument("--latency", type=float, default=0.0, help="of the stand-in, in seconds")
    parser.add_argument("--warm-up", type=float, default=2 * _LEASE_SECONDS, help="seconds before the measurement")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--database", choices=ENGINES, default="sqlite")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, node_url(given.node, given.latency) as url, ExitStack() as stack:
        home = Path(folder) / "home"
        if given.database == "postgresql":
            server = PostgresServer()
            stack.callback(server.remove)
            choose(home, server.url(server.fresh()))
        provision(home, given.relayers, url)
        found = measure_all(Plan(home, given.processes, given.seconds, given.interval, given.warm_up))
        rate = sum(each["checks_per_second"] for each in found)
        print(json.dumps({"checks_per_second": rate, "processes": found}, indent=2))


if __name__ == "__main__":
    main()
