"""What stands in front of the replicas: nginx as `deploy/` configures it."""

import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.nginx import NGINX, with_own_places
from tests.running import ask, free_port

_DEPLOYED = Path(__file__).parent.parent.parent / "deploy" / "nginx" / "nginx.conf"


@contextmanager
def balancing(folder: Path, replicas: Sequence[int]) -> Iterator[int]:
    """The port of a balancer in front of these."""
    folder.mkdir()
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(_configuration(folder, port, replicas))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([NGINX, "-p", str(folder), "-c", str(config)], stdout=log, stderr=log)
    try:
        _await_answer(port)
        yield port
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
    return with_own_places(text.replace("listen 8080;", f"listen 127.0.0.1:{port};"), folder)


def _await_answer(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        with suppress(OSError):
            ask(port, "GET", "/healthz")
            return
        assert time.monotonic() < deadline, "nginx did not answer"
        time.sleep(0.02)
