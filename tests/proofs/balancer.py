"""What stands in front of the replicas: nginx as `deploy/` configures it, else a stand-in of our own."""

import asyncio
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from tests.running import ask, free_port

_DEPLOYED = Path(__file__).parent.parent.parent / "deploy" / "nginx" / "nginx.conf"
# Debian puts servers where a plain user's PATH does not look.
_NGINX = shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@contextmanager
def balancing(folder: Path, replicas: Sequence[int]) -> Iterator[int]:
    """The port of a balancer in front of these."""
    port = free_port()
    with _nginx(_NGINX, folder, port, replicas) if _NGINX else _stand_in(port, replicas):
        yield port


@contextmanager
def _nginx(program: str, folder: Path, port: int, replicas: Sequence[int]) -> Iterator[None]:
    folder.mkdir()
    config = folder / "nginx.conf"
    config.write_text(_configuration(folder, port, replicas))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, "-p", str(folder), "-c", str(config)], stdout=log, stderr=log)
    try:
        _await_answer(port)
        yield
    finally:
        process.terminate()
        process.wait(60)


def _configuration(folder: Path, port: int, replicas: Sequence[int]) -> str:
    """The deployed one, with places of this machine. (`resolve` is for names, and newer than many an nginx.)"""
    text = _DEPLOYED.read_text("utf-8")
    found = re.search(r"server relaydeck-1:8080 resolve (.*);", text)
    assert found is not None
    servers = "".join(f"server 127.0.0.1:{each} {found[1]};\n" for each in replicas)
    text = re.sub(r"server relaydeck-1:8080 .*;", servers, text)
    text = re.sub(r"(server relaydeck-2:8080|resolver) .*;", "", text)
    text = text.replace("listen 8080;", f"listen 127.0.0.1:{port};").replace("/tmp/nginx.pid", f"{folder}/nginx.pid")
    own = "".join(f"{name}_temp_path {folder}/{name};\n" for name in _TEMPORARY)
    # Started as root, its workers would become a user who may not enter our folder.
    user = "user root;\n" if os.geteuid() == 0 else ""
    return f"daemon off;\n{user}" + text.replace("http {", "http {\n" + own)


def _await_answer(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        with suppress(OSError):
            ask(port, "GET", "/healthz")
            return
        assert time.monotonic() < deadline, "nginx did not answer"
        time.sleep(0.02)


class StandInBalancer:
    """Gives each connection to the next replica that takes one, and knows nothing of HTTP."""

    def __init__(self, port: int, replicas: Sequence[int]) -> None:
        self._port = port
        self._replicas = replicas
        self._turns = count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> None:
        self._thread.start()
        serving = asyncio.start_server(self._serve, "127.0.0.1", self._port, backlog=1024)
        self._server = asyncio.run_coroutine_threadsafe(serving, self._loop).result(10)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await self._replica()
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass_on(reader, back))
                both.create_task(_pass_on(there, writer))
        except* OSError:
            pass
        finally:
            writer.close()

    async def _replica(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        turn = next(self._turns)
        for number in range(len(self._replicas)):
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", self._replicas[(turn + number) % len(self._replicas)])
        raise ConnectionRefusedError


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


@contextmanager
def _stand_in(port: int, replicas: Sequence[int]) -> Iterator[None]:
    balancer = StandInBalancer(port, replicas)
    balancer.start()
    try:
        yield
    finally:
        balancer.stop()
