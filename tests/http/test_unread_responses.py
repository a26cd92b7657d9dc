"""Clients that send and never read are dropped, and the limit on open files bounds the connections."""

import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.running import Running
from tests.seeding import fill, issue

LIMIT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
from relaydeck.cli.connection_limit import connection_limit
from relaydeck.log import Log
print(connection_limit(Log(as_json=True, level="info")), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("unread") / "home"
    fill(home, signers=[f"a signer with a rather long name, number {n}" for n in range(1000)])
    with Running(home, token=issue(home), write_timeout_seconds="0.5") as running:
        yield running


def test_a_client_that_sends_and_never_reads_is_dropped(served: Running) -> None:
    request = (
        f"GET /api/v1/signers?per_page=1000 HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {served.token}\r\n\r\n"
    ).encode()
    time.sleep(1.1)  # a worker looks for the sockets of its server once a second
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                client.send(request * 100)
        poll = select.poll()
        poll.register(client, select.POLLERR | select.POLLHUP)
        assert poll.poll(30_000), "the connection is still open"
    assert served.ask("GET", "/api/v1/signers?per_page=1").status == 200


@pytest.mark.parametrize(
    ("soft", "hard", "connections", "files"),
    [(1024, 1024, 768, 1024), (256, 4096, 3840, 4096), (300, 300, 64, 300), (1024, 20_000, 16_384, 20_000)],
)
def test_the_limit_on_open_files_bounds_the_connections(soft: int, hard: int, connections: int, files: int) -> None:
    command = [sys.executable, "-c", LIMIT, str(soft), str(hard)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == [str(connections), str(files)]
    assert ("the limit on open files bounds" in done.stderr) == (connections < 16_384)
