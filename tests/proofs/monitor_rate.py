"""Measures the monitor: how many relayers one process checks in a second, and with how many requests.

    python -m tests.proofs.monitor_rate --relayers 20000 --seconds 60
    python -m tests.proofs.monitor_rate --relayers 1000000 --seconds 60 --interval 60 --node stand-in

The node is Hardhat, or a stand-in in a process of its own, which answers every question at once.
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from relaydeck.fees import Estimator, FeeOptions
from relaydeck.log import Log
from relaydeck.relayers.monitor import Monitor, MonitorOptions
from relaydeck.store.audit import AuditLog
from relaydeck.store.open_store import open_store_at
from relaydeck.store.writer import Writer
from tests.networks.fault_node import FaultNode
from tests.node.process import HARDHAT, running
from tests.places import place_of
from tests.seeding import ADDRESS, fill, opened

_COLUMNS = "name network network_type address signer_id paused system_disabled policies origin created_at revision"
_POLICIES = "{}"


def provision(home: Path, count: int, node: str) -> None:
    fill(home, node=node)
    columns = ("id", *_COLUMNS.split())
    with opened(home) as store, store.database.transaction() as transaction:
        for start in range(0, count, 10_000):
            rows = [
                (f"r{n}", f"R{n}", "dev", "evm", ADDRESS, "ops", 0, 0, _POLICIES, "api", 0, transaction.revision)
                for n in range(start, min(start + 10_000, count))
            ]
            transaction.insert("relayers", columns, rows)


class _CountingMonitor(Monitor):
    checked = 0

    def _to_save(self, checked: Any, result: Any) -> Any:
        self.checked += result.nonce is not None
        return super()._to_save(checked, result)


async def measure(home: Path, seconds: float, interval: float) -> dict[str, Any]:
    requests = 0
    post = aiohttp.ClientSession.post

    def counted(session: aiohttp.ClientSession, *given: Any, **named: Any) -> Any:
        nonlocal requests
        requests += 1
        return post(session, *given, **named)

    aiohttp.ClientSession.post = counted  # type: ignore[method-assign,assignment]
    store = open_store_at(home, place_of(home), home / "master.key")
    writer, estimator = Writer(store.database), Estimator(FeeOptions())
    options = MonitorOptions(interval=interval)
    log = Log(as_json=True, level="error")
    monitor = _CountingMonitor(store, writer, AuditLog(store.vault), log, estimator.pool, options)
    task = asyncio.create_task(monitor.run())
    before, started = time.process_time(), time.monotonic()
    await asyncio.sleep(seconds)
    taken, used = time.monotonic() - started, time.process_time() - before
    found = {"checks": monitor.checked, "requests": requests}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await monitor.close()
    await estimator.close()
    await writer.stop()
    store.close()
    return found | {
        "checks_per_second": round(found["checks"] / taken),
        "core_percent": round(100 * used / taken),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


async def _serve(port: Any) -> None:
    node = FaultNode()
    node.answers = {"eth_getTransactionCount": "0x7", "eth_getBalance": "0xde0b6b3a7640000"}
    await node.start()
    port.put(node.port)
    await asyncio.sleep(3600)


def _stand_in(port: Any) -> None:
    asyncio.run(_serve(port))


@contextmanager
def node_url(kind: str) -> Iterator[str]:
    if kind == "hardhat":
        with running(HARDHAT) as url:
            yield url
        return
    port: Any = multiprocessing.Queue()
    process = multiprocessing.Process(target=_stand_in, args=(port,), daemon=True)
    process.start()
    yield f"http://127.0.0.1:{port.get()}"
    process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--relayers", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--interval", type=float, default=60.0)
    parser.add_argument("--node", choices=("hardhat", "stand-in"), default="hardhat")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, node_url(given.node) as url:
        home = Path(folder) / "home"
        provision(home, given.relayers, url)
        print(json.dumps(asyncio.run(measure(home, given.seconds, given.interval)), indent=2))


if __name__ == "__main__":
    main()
