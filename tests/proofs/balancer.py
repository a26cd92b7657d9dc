"""What stands in front of the replicas: nginx as `deploy/` configures it, or HAProxy, which never tries twice."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.nginx import NGINX, with_own_places
from tests.support.running import ask, free_port

HAPROXY = Path(sys.prefix) / "bin" / "haproxy"
_DEPLOYED = Path(__file__).parent.parent.parent / "deploy" / "nginx" / "nginx.conf"
_HAPROXY = """\
defaults
    mode http
    retries 0
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout check 10s
frontend callers
    bind 127.0.0.1:{port}
    default_backend replicas
backend replicas
    balance roundrobin
    http-reuse always
    option httpchk GET /readyz
{servers}
frontend statistics
    bind 127.0.0.1:{statistics}
    stats enable
    stats uri /
"""


@contextmanager
def balancing(folder: Path, replicas: Sequence[int]) -> Iterator[int]:
    """The port of a balancer in front of these."""
    folder.mkdir()
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(_configuration(folder, port, replicas))
    with _running([str(NGINX), "-p", str(folder), "-c", str(config)], folder / "log", port):
        yield port


@contextmanager
def balancing_without_retries(
    folder: Path, replicas: Sequence[int], probes: Sequence[int] | None = None
) -> Iterator[tuple[int, int]]:
    """The port of HAProxy in front of these, and that of its statistics. What fails once has failed.

    `probes` are the ports that serve `/readyz`, if they are others.
    """
    folder.mkdir()
    port, statistics = free_port(), free_port()
    config = folder / "haproxy.cfg"
    servers = "\n".join(
        f"    server at{each} 127.0.0.1:{each} check port {probe} inter 100 fall 2 rise 1"
        for each, probe in zip(replicas, probes or replicas, strict=True)
    )
    config.write_text(_HAPROXY.format(port=port, statistics=statistics, servers=servers))
    with _running([str(HAPROXY), "-db", "-f", str(config)], folder / "log", port):
        yield port, statistics


def up(statistics: int) -> set[int]:
    """The replicas that HAProxy sends requests to. One that fails its first check (`UP 1/2`) still gets some."""
    lines = [line.split(",") for line in ask(statistics, "GET", "/;csv").body.decode().splitlines()]
    servers = [line for line in lines if line[1].startswith("at") and line[17].startswith("UP")]
    return {int(line[1].removeprefix("at")) for line in servers}


@contextmanager
def _running(command: Sequence[str], log_path: Path, port: int) -> Iterator[None]:
    with log_path.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
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
    return with_own_places(text.replace("listen 8080;", f"listen 127.0.0.1:{port};"), folder)


def _await_answer(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        with suppress(OSError):
            ask(port, "GET", "/healthz")
            return
        assert time.monotonic() < deadline, "the balancer did not answer"
        time.sleep(0.02)
