"""The processes of the HTTP server: how they are configured, started, stopped and restarted."""

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
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from granian import Granian
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.common import AbstractServer

from relaydeck import __version__
from relaydeck.app import Application, ReplacedWorker, worker_class
from relaydeck.cli.connection_limit import apply_file_limit
from relaydeck.errors import OperatorError
from relaydeck.http.metric_counts import Metrics, allocate, remove_abandoned
from relaydeck.log import Log
from relaydeck.settings import Settings
from relaydeck.web_addresses import host_in_url

_IN_MEMORY = Path("/dev/shm")  # noqa: S108 (the names in it are random)
_BUFFERED_BYTES = 131_072  # of a connection: headers that arrive, and responses that wait for the client
_SILENT_SECONDS = 5  # workers beat each second
_WORKER_NAME = "granian-worker"  # of the processes that Granian starts
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class ServerLog(logging.Handler):
    """Routes Granian's own messages into our log, and knows from them which worker is being replaced.

    Granian names the worker in a message and then forks, in the same thread: the new process finds its name here.
    """

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log
        self._ended: dict[str, float] = {}  # by the name of the worker
        self.replaced: ReplacedWorker | None = None

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        words, _, worker = message.rpartition(" ")
        if words == "Unexpected exit from":
            self._ended[worker] = time.monotonic()
        elif words == "Respawning" and worker in self._ended:
            self.replaced = ReplacedWorker(worker, self._ended[worker])
        if record.levelno >= logging.WARNING and not _is_mistaken(message):
            self.log.event(record.levelname.lower() if record.levelname != "CRITICAL" else "error", message)

    def config(self) -> dict[str, Any]:
        """For `logging.config`."""
        loggers = {name: {"handlers": ["log"], "level": "INFO", "propagate": False} for name in ("_granian", "granian")}
        handlers = {"log": {"()": lambda: self}}
        return {"version": 1, "disable_existing_loggers": False, "handlers": handlers, "loggers": loggers}


def _is_mistaken(message: str) -> bool:
    """Two threads of Granian wait for the end of a worker. The one that stops it may learn of it last, and then warns
    that it kills a worker that has ended by itself."""
    return message.startswith("Killing worker-") and not _a_worker_runs()


def serve(settings: Settings, log: Log, host: str, port: int, *, workers: int, **options: Any) -> None:
    metrics_path = _fresh_metrics(settings, workers, log)
    server_log, make_worker = ServerLog(log), worker_class(settings)
    server = _server(settings, server_log, host, port, workers=workers, **options)

    def load() -> Application:
        return Application(settings, metrics_path, log, make_worker, server_log.replaced)

    facts = {"address": f"{host_in_url(host)}:{port}", "home": str(settings.home.absolute())}
    if settings.core == "on":
        facts["core"] = "on"
    if settings.operations_address is not None:
        facts["operations"] = f"{host_in_url(settings.operations_address[0])}:{settings.operations_address[1]}"
    try:
        with _operations_server(settings, metrics_path, log, port):
            log.event("info", "serving", **facts, workers=workers, version=__version__)
            _run(server, load, settings.stop_mark(os.getpid()), partial(_keep_systemd_informed, metrics_path))
    finally:
        metrics_path.unlink(missing_ok=True)
        settings.stop_mark(os.getpid()).unlink(missing_ok=True)
    log.event("info", "stopped")


@contextmanager
def _operations_server(settings: Settings, metrics_path: Path, log: Log, port: int) -> Iterator[None]:
    """A process for what needs no credential, on a port of its own, if RELAYDECK_OPERATIONS_ADDRESS is set."""
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
    from relaydeck.operations_worker import OperationsWorker

    assert settings.operations_address is not None
    log.write_in_thread()
    host, port = settings.operations_address
    server = _server(settings, ServerLog(log), host, port)
    load = partial(Application, settings, metrics_path, log, partial(OperationsWorker, os.getppid()))
    _run(server, load, None)


def _run(
    server: AbstractServer[Any], load: Callable[[], Application], stop_mark: Path | None, *beside: Callable[[], None]
) -> None:
    """Serve until SIGTERM, Ctrl-C or the end of the terminal.

    The server's own signal handler deadlocks when a second signal interrupts it, and does not run when another
    thread receives the signal. Therefore signals are blocked, and one thread waits for them and stops the server
    once. Workers inherit the mask: a signal sent while a worker starts stays pending until it has started.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    threads: tuple[Callable[[], None], ...] = (partial(_stop_on_signal, server, stop_mark), *beside)
    for each in threads:
        threading.Thread(target=each, daemon=True).start()
    server.serve(target_loader=load, wrap_loader=False)


def _stop_on_signal(server: AbstractServer[Any], stop_mark: Path | None) -> None:
    signal.sigwait(_STOP_SIGNALS)
    if stop_mark is not None:
        with suppress(OSError):  # a full disk must not prevent the stop
            stop_mark.touch()
    server.signal_handler_interrupt()  # type: ignore[no-untyped-call]


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
    limit = apply_file_limit(log.log, tls=bool(options.get("ssl_cert")))
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
        backlog=limit.queued,
        backpressure=limit.connections,  # a worker that holds so many stops accepting
        respawn_failed_workers=True,
        workers_kill_timeout=max(1, round(settings.stop_timeout_seconds)),
        log_level=LogLevels.info,
        log_dictconfig=log.config(),
        **options,
    )


def _a_worker_runs() -> bool:
    workers = [each for each in multiprocessing.active_children() if each.name == _WORKER_NAME]
    return any(Path(f"/proc/{each.pid}").exists() for each in workers)


def _fresh_metrics(settings: Settings, workers: int, log: Log) -> Path:
    """A new file with room for every process, so that it does not have to grow on a disk that is full by then."""
    path, processes = settings.run_folder / f"metrics-{os.getpid()}", workers + 1
    remove_abandoned(settings.run_folder.glob("metrics-*"))
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
