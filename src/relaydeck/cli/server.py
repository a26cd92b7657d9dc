"""The processes of the HTTP server: how they are configured, started, stopped and restarted."""

import fcntl
import logging
import multiprocessing
import os
import re
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from granian import Granian
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.common import AbstractServer

from relaydeck import __version__
from relaydeck.errors import OperatorError
from relaydeck.http.metric_counts import Metrics, allocate, remove_abandoned
from relaydeck.log import Log
from relaydeck.process.figures import apply_file_limit, own_memory_limit
from relaydeck.settings.model import Settings
from relaydeck.web_addresses import host_in_url
from relaydeck.worker.app import Application, ReplacedWorker, worker_class

_IN_MEMORY = Path("/dev/shm")  # noqa: S108 (the names in it are random)
_BACKLOG = 4096  # connections that wait in the kernel to be accepted
_BUFFERED_BYTES = 131_072  # of a connection: headers that arrive, and responses that wait for the client
_SILENT_SECONDS = 5  # workers beat each second
_WORKER_NAME = "granian-worker"  # of the processes that Granian starts
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_DRAIN_SIGNAL, _DRAIN_SECONDS = signal.SIGUSR1, 15
_DEATHS_WITHIN, _MOST_DEATHS = 600, 5
_MISSED_SECONDS = 5  # after which a replacement that has not begun is asked for again
_LONGEST_PAUSE = 60  # before a worker is replaced that has died before


class ServerLog(logging.Handler):
    """Routes Granian's own messages into our log, and knows from them which worker has died and is being replaced.

    Each worker has a thread that waits for its end. It logs the end here, and when this returns it has the worker
    replaced: until then, Granian waits with that. Granian names the worker in a message and then forks, in the same
    thread: the new process finds its name here.

    A worker is replaced at once when it dies for the first time within ten minutes, and after a growing pause from then
    on, while the others serve. The service ends, so that a supervisor can act, when each of its workers has died five
    times, or when one dies for the second time and none has ever served: then none can start.
    """

    def __init__(self, log: Log, metrics_path: Path, workers: int = 1) -> None:
        super().__init__()
        self.log = log
        self._metrics_path = metrics_path
        self._deaths: dict[str, list[float]] = {f"worker-{number + 1}": [] for number in range(workers)}
        self._memory_kills = own_memory_limit().kills
        self._has_served = False
        self.replaced: ReplacedWorker | None = None
        self._awaited: dict[str, float] = {}  # since when a replacement could have begun
        self.server: AbstractServer[Any] | None = None
        self.stopping = threading.Event()
        self.gave_up = False

    def handle(self, record: logging.LogRecord) -> bool:
        """Without the lock of the standard library: `emit` may wait."""
        self.emit(record)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        words, _, worker = message.rpartition(" ")
        if words == "Unexpected exit from":
            self._wait_to_replace(worker)
            return
        if words == "Respawning" and self._deaths[worker]:
            self._awaited.pop(worker, None)
            self.replaced = ReplacedWorker(worker, self._deaths[worker][-1])
        if record.levelno >= logging.WARNING and not _is_mistaken(message):
            self.log.event(record.levelname.lower() if record.levelname != "CRITICAL" else "error", message)

    def _wait_to_replace(self, worker: str) -> None:
        now = time.monotonic()
        for each, moments in self._deaths.items():
            self._deaths[each] = [moment for moment in moments if moment > now - _DEATHS_WITHIN]
        self._deaths[worker].append(now)
        deaths, cause = len(self._deaths[worker]), self._count_death(worker)
        if self.stopping.is_set():
            raise SystemExit  # ends this thread, and the worker is not replaced
        cannot_start = deaths > 1 and not self._has_served
        if cannot_start or min(map(len, self._deaths.values())) >= _MOST_DEATHS:
            event = "the workers do not stay alive: the service ends"
            self.log.event("error", event, worker=worker, died_of=cause, deaths=deaths)
            self.gave_up = True
            os.kill(os.getpid(), signal.SIGTERM)
            raise SystemExit
        pause = min(2 ** (deaths - 2), _LONGEST_PAUSE) if deaths > 1 else 0
        self.log.event("error", "a worker has died", worker=worker, died_of=cause, deaths=deaths, pause_seconds=pause)
        if self.stopping.wait(pause):
            raise SystemExit
        assert self.server is not None
        self.server.respawned_wrks.clear()  # or Granian would end the service, whatever the other workers do
        self._awaited[worker] = time.monotonic()

    def remind(self) -> None:
        """Repeat what Granian was told and may have missed.

        Its main thread forgets what arrives just when it begins to replace a worker: the death of another one, or that
        the service shall stop.
        """
        assert self.server is not None
        if not self.stopping.is_set():
            self.server.interrupt_children.extend(self._missed(self.server.interrupt_children))
        if self.stopping.is_set() or self.server.interrupt_children:
            self.server.main_loop_interrupt.set()

    def _missed(self, known: list[int]) -> Iterator[int]:
        for worker, since in list(self._awaited.items()):
            index = int(worker.removeprefix("worker-")) - 1
            if index not in known and since < time.monotonic() - _MISSED_SECONDS:
                self._awaited[worker] = time.monotonic()
                yield index

    def _count_death(self, worker: str) -> str:
        """Count it in the metrics by its reason, and say what it died of."""
        code = self._exit_code(worker)
        reason, cause = "exit", f"exit code {code}"
        if code is not None and code < 0:
            reason, cause = "signal", signal.Signals(-code).name
        memory = own_memory_limit()
        if code == -signal.SIGKILL and memory.kills > self._memory_kills:
            self._memory_kills += 1
            limit = "no limit" if memory.limit is None else f"a limit of {memory.limit} bytes"
            reason, cause = "memory", f"{cause}: out of memory, in a cgroup with {limit}"
        with suppress(OSError), closing(Metrics(self._metrics_path)) as metrics:
            self._has_served |= metrics.a_worker_has_started
            metrics.count_death(reason)
        return cause

    def _exit_code(self, worker: str) -> int | None:
        """Granian lists a worker shortly after its start."""
        assert self.server is not None
        for _ in range(100):
            for each in list(self.server.wrks):
                if f"worker-{each.idx + 1}" == worker and each.inner.exitcode is not None:
                    return int(each.inner.exitcode)
            time.sleep(0.01)
        return None

    def config(self) -> dict[str, Any]:
        loggers = {name: {"handlers": ["log"], "level": "INFO", "propagate": False} for name in ("_granian", "granian")}
        handlers = {"log": {"()": lambda: self}}
        return {"version": 1, "disable_existing_loggers": False, "handlers": handlers, "loggers": loggers}


def _is_mistaken(message: str) -> bool:
    """Two threads of Granian wait for the end of a worker. The one that stops it may learn of it last, and then warns
    that it kills a worker that has ended by itself."""
    if not message.startswith("Killing worker-"):
        return False
    workers = [each for each in multiprocessing.active_children() if each.name == _WORKER_NAME]
    return not any(Path(f"/proc/{each.pid}").exists() for each in workers)


def run_server(settings: Settings, log: Log, host: str, port: int, *, workers: int, **options: Any) -> None:
    metrics_path = _fresh_metrics(settings, workers, log)
    server_log, make_worker = ServerLog(log, metrics_path, workers), worker_class(settings)
    server = _server(settings, server_log, host, port, workers=workers, **options)

    def load() -> Application:
        return Application(settings, metrics_path, log, make_worker, server_log.replaced)

    facts = {"address": f"{host_in_url(host)}:{port}", "home": str(settings.home.absolute())}
    if settings.core == "on":
        facts["core"] = "on"
    if settings.operations_address is not None:
        facts["operations"] = f"{host_in_url(settings.operations_address[0])}:{settings.operations_address[1]}"
    scheme = "https" if options.get("ssl_cert") else "http"
    settings.served_mark(os.getpid()).write_text(f"{scheme}://{facts['address']}", "utf-8")
    try:
        with _operations_server(settings, metrics_path, log, port), _drainable(settings.run_folder) as asked:
            log.event("info", "serving", **facts, workers=workers, version=__version__)
            wait = partial(_wait_or_drain, metrics_path, log, asked)
            beside = partial(_keep_systemd_informed, metrics_path)
            _run(server, server_log, load, settings.stop_mark(os.getpid()), beside, wait=wait)
    finally:
        metrics_path.unlink(missing_ok=True)
        settings.stop_mark(os.getpid()).unlink(missing_ok=True)
        settings.served_mark(os.getpid()).unlink(missing_ok=True)
    log.event("info", "stopped")


@contextmanager
def _operations_server(settings: Settings, metrics_path: Path, log: Log, port: int) -> Iterator[None]:
    if settings.operations_address is None:
        yield
        return
    require_free(*settings.operations_address, "Choose another RELAYDECK_OPERATIONS_ADDRESS.")
    if settings.operations_address[1] == port:
        raise OperatorError(
            "RELAYDECK_OPERATIONS_ADDRESS uses the port of the service itself", "Choose another port for one of them."
        )
    process = multiprocessing.Process(target=_serve_operations, args=(settings, metrics_path, log))
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _serve_operations(settings: Settings, metrics_path: Path, log: Log) -> None:
    from relaydeck.worker.operations_worker import OperationsWorker

    assert settings.operations_address is not None
    log.write_in_thread()
    host, port = settings.operations_address
    server_log = ServerLog(log, metrics_path)
    server = _server(settings, server_log, host, port)
    load = partial(Application, settings, metrics_path, log, partial(OperationsWorker, os.getppid()))
    _run(server, server_log, load, None, wait=partial(signal.sigwait, _STOP_SIGNALS))


@contextmanager
def _drainable(run_folder: Path) -> Iterator[int | None]:
    """Lock a file, so that `relaydeck drain` finds this process; it writes the seconds into it.

    None: the disk is full, or a process of the same number in another container uses this home.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {_DRAIN_SIGNAL})
    path, asked = run_folder / f"drain-{os.getpid()}", None
    try:
        asked = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.lockf(asked, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of this process alone: its workers do not inherit it
        os.ftruncate(asked, 0)
    except OSError:
        if asked is not None:
            os.close(asked)
        yield None
        return
    try:
        yield asked
    finally:
        path.unlink(missing_ok=True)
        os.close(asked)


def _wait_or_drain(metrics_path: Path, log: Log, asked: int | None) -> None:
    """Wait for a signal to stop, or for the end of a drain, which such a signal cuts short."""
    if signal.sigwait((*_STOP_SIGNALS, _DRAIN_SIGNAL)) != _DRAIN_SIGNAL:
        return
    text = b"" if asked is None else os.pread(asked, 8, 0)
    seconds = int(text) if text.isdigit() else _DRAIN_SECONDS
    if asked is not None and not text:
        with suppress(OSError):
            os.pwrite(asked, str(seconds).encode(), 0)  # for `relaydeck drain`: this service drains already
    with suppress(OSError):  # no file can be opened: the service stops all the same
        Metrics(metrics_path).drain()
    log.event("info", "draining: not ready from now on, and stopping after these seconds", seconds=seconds)
    signal.sigtimedwait(_STOP_SIGNALS, seconds)


def _run(
    server: AbstractServer[Any],
    server_log: ServerLog,
    load: Callable[[], Application],
    stop_mark: Path | None,
    *beside: Callable[[], None],
    wait: Callable[[], object],
) -> None:
    """Serve until SIGTERM, Ctrl-C or the end of the terminal, or until a drain is over.

    The server's own signal handler deadlocks when a second signal interrupts it, and does not run when another
    thread receives the signal. Therefore signals are blocked, and one thread waits for them and stops the server
    once. Workers inherit the mask: a signal sent while a worker starts stays pending until it has started.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, (*_STOP_SIGNALS, _DRAIN_SIGNAL))
    server_log.server = server
    stop, remind = partial(_stop_on_signal, server_log, stop_mark, wait), partial(_remind_each_second, server_log)
    threads: tuple[Callable[[], None], ...] = (stop, remind, *beside)
    for each in threads:
        threading.Thread(target=each, daemon=True).start()
    try:
        server.serve(target_loader=load, wrap_loader=False)
    except SystemExit:
        if not server_log.stopping.is_set():  # a worker that died just before the stop is not a failure
            raise
    if server_log.gave_up:
        raise SystemExit(1)


def _stop_on_signal(server_log: ServerLog, stop_mark: Path | None, wait: Callable[[], object]) -> None:
    wait()
    server_log.stopping.set()
    if stop_mark is not None:
        with suppress(OSError):  # a full disk must not prevent the stop
            stop_mark.touch()
    assert server_log.server is not None
    server_log.server.signal_handler_interrupt()  # type: ignore[no-untyped-call]


def _remind_each_second(server_log: ServerLog) -> None:
    while True:
        time.sleep(1)
        server_log.remind()


def _keep_systemd_informed(metrics_path: Path) -> None:
    """Tell systemd that the service is ready, then that it is alive, for as long as a worker shows that it is.

    See sd_notify(3). When nothing is sent for `WatchdogSec=`, systemd restarts the service.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    pause = int(os.environ.get("WATCHDOG_USEC", "3000000")) / 3_000_000
    metrics, is_ready = Metrics(metrics_path), False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as notify:
        while True:
            is_ready = is_ready or metrics.a_worker_has_started
            if is_ready and metrics.a_worker_lives(_SILENT_SECONDS):
                with suppress(OSError):  # the next message may arrive
                    notify.sendto(b"READY=1\nWATCHDOG=1", re.sub("^@", "\0", address))
            time.sleep(min(pause, 1.0))


def _server(settings: Settings, log: ServerLog, host: str, port: int, **options: Any) -> AbstractServer[Any]:
    return Granian(
        "relaydeck",
        address=host if ":" in host else socket.gethostbyname(host),  # Granian does not resolve names
        port=port,
        interface=Interfaces.ASGI,
        # HTTP/1 only: while Granian detects the version, it has no time limit on a silent client.
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(
            header_read_timeout=round(settings.header_timeout_seconds * 1000), max_buffer_size=_BUFFERED_BYTES
        ),
        websockets=False,
        backlog=_BACKLOG,
        backpressure=apply_file_limit(log.log),  # a worker that holds so many stops accepting
        respawn_failed_workers=True,
        workers_kill_timeout=max(1, round(settings.stop_timeout_seconds)),
        log_level=LogLevels.info,
        log_dictconfig=log.config(),
        **options,
    )


def _fresh_metrics(settings: Settings, workers: int, log: Log) -> Path:
    """A new file with room for every process, so that it does not have to grow on a disk that is full by then."""
    path, processes = settings.run_folder / f"metrics-{os.getpid()}", workers + 1
    remove_abandoned(
        path for path in settings.run_folder.iterdir() if path.name.startswith(("metrics-", "drain-", "served-"))
    )
    try:
        allocate(path, processes)
    except OSError as error:
        log.event("warning", "the home folder cannot be written to: the metrics are kept in memory", problem=str(error))
        path = _IN_MEMORY / f"relaydeck-metrics-{os.getpid()}-{secrets.token_hex(8)}"
        allocate(path, processes)
    return path


def require_free(host: str, port: int, remedy: str = "Choose another --host or --port.") -> None:
    """Workers share the port (SO_REUSEPORT), so the kernel would silently let a second service share it too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OperatorError(f"cannot listen on {host_in_url(host)}:{port}: {error.strerror}", remedy) from None
