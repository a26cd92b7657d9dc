"""Replicas, and the servers, balancers and disks around them: what faults are caused in."""

import os
import select
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from relaydeck.settings.values import DatabaseUrl
from tests.proofs.balancer import HAPROXY
from tests.proofs.fleet import Fleet, Replica
from tests.proofs.small_disk import small_disk
from tests.proofs.tcp_proxy import Proxy
from tests.support.places import choose
from tests.support.pooler import PgBouncer
from tests.support.postgres import PostgresServer, through
from tests.support.postgres_pair import PostgresPair
from tests.support.running import children, eventually, free_port, run_command
from tests.support.seeding import issue
from tests.support.valkey import Valkey

_SKEWED = Path(__file__).parent.parent / "explore" / "skewed"
_HAPROXY = """
defaults
  mode tcp
  timeout connect 5s
  {options}
listen server
  bind 127.0.0.1:{port} {bind}
  server one 127.0.0.1:{target}
"""
_SETTINGS = {
    "rate_limit_per_second": "100000",
    "rate_limit_burst": "100000",
    "limits_timeout_seconds": "1",
    "monitor_interval_seconds": "0",
    "webhook_allow": "127.0.0.0/8",
    "log_level": "warning",
    "log_format": "json",
}
_DOCUMENT = """
[[notifications]]
id = "pager"
type = "webhook"
url = "{url}"
"""
_LONGEST_START = 90.0
_GROWTH = 16 << 20  # what others may write while a disk is filled


class Stage:
    """Replicas of two workers each: two on PostgreSQL, or one on SQLite. What a fault does not need is not there."""

    replicas: Sequence[Replica]
    ports: Sequence[int]  # where clients reach the replicas
    server: PostgresServer
    name: str  # of the database on that server
    pair: PostgresPair
    pooler: PgBouncer
    proxies: Sequence[Proxy]
    valkey: Valkey
    balancer: "HAProxy"
    statistics: int  # port of the balancer before the replicas
    disk: Path
    pipes: Sequence["Pipe"] = ()
    certificates: Sequence[Path]
    examined: Mapping[str, str]  # the environment in which `doctor` examines the fault
    refusals: Sequence[str] = ()  # what a replica said that did not start

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.stack = folder, stack
        folder.chmod(0o755)  # for the account of the database server
        self.operator = folder / "operator"  # reaches the database directly
        self._skew = folder / "skew"
        self._trusted: dict[str, str] = {}
        self.set_clock(0.0)

    def add_server(self, *settings: str) -> DatabaseUrl:
        self.server = PostgresServer(*settings)
        self.stack.callback(self.server.remove)
        self.name = self.server.fresh()
        return self.server.url(self.name)

    def add_pair(self) -> DatabaseUrl:
        self.pair = PostgresPair()
        self.stack.callback(self.pair.remove)
        return self.pair.url(self.pair.fresh())

    def add_proxies(self, url: DatabaseUrl) -> list[DatabaseUrl]:
        """The URL of each of two replicas, through a network of its own."""
        self.proxies = [Proxy(self.server.port) for _ in range(2)]
        for each in self.proxies:
            self.stack.callback(each.close)
        return [through(url, each.port) for each in self.proxies]

    def add_pooler(self, mode: str) -> PgBouncer:
        self.pooler = PgBouncer(
            self.server, pool_mode=mode, default_pool_size="100", ignore_startup_parameters="options"
        )
        self.stack.callback(self.pooler.close)
        return self.pooler

    def add_valkey(self, **options: str) -> dict[str, str]:
        """The settings that use it."""
        self.valkey = Valkey(self.folder, **options)
        self.stack.callback(self.valkey.stop)
        return {"limits_url": self.valkey.url}

    def add_disk(self) -> Path:
        """So large that `doctor` is content."""
        self.disk = self.folder / "disk"
        mounted = self.stack.enter_context(small_disk(self.disk, "1200m,mode=1777"))
        assert mounted, "this user may not mount a file system"
        return self.disk

    def add_balancer(self, target: int, options: str, bind: str = "") -> None:
        self.balancer = HAProxy(self.folder, target, options, bind)
        self.stack.callback(self.balancer.stop)

    def add_pipes(self) -> None:
        self.pipes = [Pipe(self.folder / f"pipe-{number}") for number in range(2)]
        for each in self.pipes:
            self.stack.callback(each.close)

    def trust(self, certificate: Path) -> None:
        """Replicas that are started from now on accept what it has signed."""
        self._trusted = {"SSL_CERT_FILE": str(certificate)}

    def fill(self, url: DatabaseUrl | None = None) -> None:
        """Prepare the database: without a URL a SQLite file in the home of the operator."""
        self.operator.mkdir(mode=0o700)
        if url is not None:
            choose(self.operator, url)
        receiver = ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
        self.stack.callback(receiver.server_close)
        self.stack.callback(receiver.shutdown)
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        document = _DOCUMENT.format(url=f"http://127.0.0.1:{receiver.server_port}/hook")
        done = run_command(self.operator, "apply", "-", stdin=document, webhook_allow="127.0.0.0/8")
        assert done.returncode == 0, done.stderr
        self.token = issue(self.operator, "root", "admin")

    def serve(self, urls: Sequence[DatabaseUrl | None], *logs: Path, **settings: str) -> None:
        """A replica for each URL. On SQLite it serves the home of the operator."""
        self.replicas = []
        for number, url in enumerate(urls):
            home = self.operator if url is None else self.folder / f"replica-{number}"
            home.mkdir(mode=0o700, exist_ok=True)
            if url is not None:
                choose(home, url)
            own = {"operations_address": f"127.0.0.1:{free_port()}"}
            own["master_key_file"] = str(self.operator / "master.key")
            made = Replica(home, "--workers", "2", **(_SETTINGS | own | settings))
            made.log_path = logs[number] if logs else made.log_path
            made.set_environment(PYTHONPATH=str(_SKEWED), SKEW_FILE=str(self._skew), **self._trusted)
            self.replicas = [*self.replicas, made]
        self.ports = [each.port for each in self.replicas]
        self.examined = self.replicas[0].environment
        fleet = self.stack.enter_context(Fleet(self.replicas))
        fleet.await_ready(_LONGEST_START)

    @property
    def logs(self) -> list[str]:
        return [each.text for each in self.pipes] or [each.log for each in self.replicas]

    def set_clock(self, skew: float) -> None:
        with open(self._skew, "r+b" if self._skew.exists() else "wb") as file:
            file.write(struct.pack("d", skew))


def workers_of(replica: Replica) -> list[int]:
    """The process that serves the probes has a child of its own."""
    return [each for each in children(replica.pid) if not children(each)]


class _Receiver(BaseHTTPRequestHandler):
    """Accepts every event."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class HAProxy:
    """In front of a server, with options of the section `defaults` and of its line `bind`."""

    def __init__(self, folder: Path, target: int, options: str, bind: str) -> None:
        self.port = free_port()
        self._folder, self._target, self._options = folder, target, options
        self._start(bind)

    def replace(self, bind: str) -> None:
        """By another one at the same port, which refuses no connection meanwhile."""
        before = self._process
        self._start(bind)
        before.kill()
        before.wait(60)

    def _start(self, bind: str) -> None:
        config = self._folder / "haproxy.cfg"
        config.write_text(_HAPROXY.format(port=self.port, target=self._target, options=self._options, bind=bind))
        with (self._folder / "haproxy.log").open("ab") as log:
            self._process = subprocess.Popen([HAPROXY, "-db", "-f", config], stdout=log, stderr=log)
        eventually(self._accepts)

    def _accepts(self) -> bool:
        assert self._process.poll() is None, (self._folder / "haproxy.log").read_text()
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=10):
            return True
        return False

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(60)


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Not a byte is left on its disk."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(folder).free - _GROWTH)
        file.seek(0, os.SEEK_END)
        with suppress(OSError):
            while True:
                file.write(b"\0" * 4096)
    try:
        yield
    finally:
        filler.unlink()


class Pipe:
    """A log that is read into the file `read`, except while `reading` is cleared."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._descriptor = os.open(path, os.O_RDWR)  # it never ends: the writer may be started again
        self._read = (path.with_suffix(".log")).open("ab", buffering=0)
        self.reading = threading.Event()
        self.reading.set()
        threading.Thread(target=self._copy, daemon=True).start()

    @property
    def text(self) -> str:
        return self.path.with_suffix(".log").read_text("utf-8", "replace")

    @property
    def is_full(self) -> bool:
        """It takes no more lines of a usual length."""
        _, writable, _ = select.select([], [self._descriptor], [], 0)
        return not writable

    def _copy(self) -> None:
        while self.reading.wait():
            self._read.write(os.read(self._descriptor, 65_536))

    def close(self) -> None:
        self.reading.set()


class MemoryGroup:
    """A limit of memory for the processes that are moved into it and for those that they start. Needs root."""

    def __init__(self, name: str) -> None:
        first = Path("/sys/fs/cgroup/memory")  # version 1 of cgroups has a folder for each resource
        self._limit = "memory.limit_in_bytes" if first.exists() else "memory.max"
        self._above = first if first.exists() else first.parent
        self._folder = self._above / f"relaydeck-{name}"
        self._folder.mkdir()

    def limit(self, size: int) -> None:
        (self._folder / self._limit).write_text(str(size))

    def add(self, pid: int) -> None:
        (self._folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        eventually(self._is_empty)
        self._folder.rmdir()

    def _is_empty(self) -> bool:
        for pid in (self._folder / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                (self._above / "cgroup.procs").write_text(pid)
        return not (self._folder / "cgroup.procs").read_text()
