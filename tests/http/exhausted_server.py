"""A server that accepts until it can open no further file, and then starts its guard.

`python -m tests.http.exhausted_server` prints its port, and `recovered` when it can open files again. It ends with its
input.
"""

import asyncio
import os
import resource
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from relaydeck.http.connection_guard import start_guard
from relaydeck.http.metric_counts import Metrics
from relaydeck.log import Log

FILES = 1024
LONGEST_RECOVERY = 60.0


def no_file_can_be_opened() -> bool:
    try:
        os.close(os.dup(0))
    except OSError:
        return True
    return False


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1024):
            writer.write(data)
    writer.close()


async def run(metrics: Metrics, log: Log) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # of connections not accepted
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=FILES)
    print(server.sockets[0].getsockname()[1], flush=True)
    while not no_file_can_be_opened():
        await asyncio.sleep(0.001)
    guard = start_guard(set(), log, metrics, 30.0)
    async with asyncio.timeout(LONGEST_RECOVERY):
        while no_file_can_be_opened():
            await asyncio.sleep(0.001)
    print("recovered", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    guard.close()
    await asyncio.sleep(0)  # for what the guard has to report


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, 2 * FILES))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Metrics(Path(folder) / "metrics"), Log(as_json=True, level="info")))
