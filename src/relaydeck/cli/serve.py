"""`relaydeck serve`: prepare the home, warn the operator where needed, run the server."""

import logging
import multiprocessing
import os
import resource
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from granian import Granian
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.common import AbstractServer

from relaydeck import __version__
from relaydeck.app import Application
from relaydeck.cli.connection_limit import connection_limit
from relaydeck.cli.console_link import host_in_url, print_link_on_terminal
from relaydeck.cli.startup_tokens import accept_bootstrap_token, print_first_token
from relaydeck.credentials.kinds import TokenKind
from relaydeck.doctor.machine import is_open_to_others
from relaydeck.errors import OperatorError
from relaydeck.http.metrics import allocate
from relaydeck.log import Log
from relaydeck.operations_worker import OperationsWorker
from relaydeck.settings import Settings, read_settings, setting_warnings
from relaydeck.store.open_store import open_store

_IN_MEMORY = Path("/dev/shm")  # noqa: S108 (the names in it are random)
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run(*, workers: int, tls_cert: Path | None, tls_key: Path | None, **given: Any) -> None:
    """`given`: settings of the command line, which override those of the environment and the file."""
    settings = replace(read_settings(), **{name: value for name, value in given.items() if value is not None})
    host, port = settings.host, settings.port
    log = _log(settings)
    for warning in setting_warnings():
        log.event("warning", warning)
    _require_both(tls_cert, tls_key)
    if tls_cert is None:
        _warn_of_plain_http(host, log)
    _require_free(host, port)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would contain keys and tokens
    store = open_store(settings)
    _warn_of_readable_key(settings.master_key_path, log)
    try:
        accept_bootstrap_token(settings.bootstrap_token_file, TokenKind(settings.bootstrap_token_kind), store, log)
        address = f"{'https' if tls_cert else 'http'}://{host_in_url(host)}:{port}"
        print_first_token(store, address, log)
        print_link_on_terminal(store, settings, address)
    finally:
        store.close()  # SQLite connections must not be inherited by the workers
    _serve(settings, log, host, port, workers=workers, ssl_cert=tls_cert, ssl_key=tls_key)


def _warn_of_readable_key(path: Path, log: Log) -> None:
    if is_open_to_others(path):
        log.event("warning", f"other users can read the master key; run: chmod 600 {path}")


def _warn_of_plain_http(host: str, log: Log) -> None:
    if not _is_loopback(host):
        log.event(
            "warning",
            "PLAIN HTTP ON A NON-LOOPBACK ADDRESS: anyone on the network can read tokens and keys; "
            "pass --tls-cert and --tls-key, or put a TLS proxy in front",
            address=host,
        )


def _serve(settings: Settings, log: Log, host: str, port: int, *, workers: int, **options: Any) -> None:
    metrics_path = _fresh_metrics(settings, workers, log)
    server = _server(settings, log, host, port, workers=workers, **options)
    log.event("info", "serving", address=f"{host_in_url(host)}:{port}", workers=workers, version=__version__)
    try:
        with _operations_server(settings, metrics_path, log, port):
            _run(server, partial(Application, settings, metrics_path, log), settings.stop_mark(os.getpid()))
    finally:
        metrics_path.unlink(missing_ok=True)
        settings.stop_mark(os.getpid()).unlink(missing_ok=True)
    log.event("info", "stopped")


@contextmanager
def _operations_server(settings: Settings, metrics_path: Path, log: Log, port: int) -> Iterator[None]:
    """A process for health, metrics and documentation on a port of its own, if RELAYDECK_OPERATIONS_ADDRESS is set."""
    if settings.operations_address is None:
        yield
        return
    _require_free(*settings.operations_address)
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
    assert settings.operations_address is not None
    host, port = settings.operations_address
    server = _server(settings, log, host, port)
    load = partial(Application, settings, metrics_path, log, partial(OperationsWorker, os.getppid()))
    _run(server, load, None)


def _run(server: AbstractServer[Any], load: Callable[[], Application], stop_mark: Path | None) -> None:
    """Serve until SIGTERM, Ctrl-C or the end of the terminal.

    The server's own signal handler deadlocks when a second signal interrupts it, and does not run when another
    thread receives the signal. Therefore signals are blocked, and one thread waits for them and stops the server
    once. Workers inherit the mask: a signal sent while a worker starts stays pending until it has started.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    threading.Thread(target=_stop_on_signal, args=(server, stop_mark), daemon=True).start()
    server.serve(target_loader=load, wrap_loader=False)


def _stop_on_signal(server: AbstractServer[Any], stop_mark: Path | None) -> None:
    signal.sigwait(_STOP_SIGNALS)
    if stop_mark is not None:
        with suppress(OSError):  # a full disk must not prevent the stop
            stop_mark.touch()
    server.signal_handler_interrupt()  # type: ignore[no-untyped-call]


def _server(settings: Settings, log: Log, host: str, port: int, **options: Any) -> AbstractServer[Any]:
    return Granian(
        "relaydeck",
        address=host if ":" in host else socket.gethostbyname(host),  # Granian does not resolve names
        port=port,
        interface=Interfaces.ASGI,
        # HTTP/1 only: while Granian detects the version, it has no time limit on a silent client.
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=round(settings.header_timeout_seconds * 1000)),
        websockets=False,
        backlog=4096,
        backpressure=connection_limit(log),  # connections a worker holds before it stops accepting
        respawn_failed_workers=True,
        workers_kill_timeout=max(1, round(settings.stop_timeout_seconds)),
        log_level=LogLevels.warning,
        log_dictconfig=_server_logging(log),
        **options,
    )


def _log(settings: Settings) -> Log:
    as_json = not sys.stderr.isatty() if settings.log_format == "auto" else settings.log_format == "json"
    return Log(as_json=as_json, level=settings.log_level)


def _server_logging(log: Log) -> dict[str, Any]:
    """Route Granian's own log messages into ours."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            log.event(record.levelname.lower() if record.levelname != "CRITICAL" else "error", record.getMessage())

    return {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"log": {"()": Handler}},
        "loggers": {
            name: {"handlers": ["log"], "level": "WARNING", "propagate": False} for name in ("_granian", "granian")
        },
    }


def _fresh_metrics(settings: Settings, workers: int, log: Log) -> Path:
    """A new file with room for every process, so that it does not have to grow on a disk that is full by then."""
    path, processes = settings.run_folder / f"metrics-{os.getpid()}", workers + 1
    try:
        allocate(path, processes)
    except OSError as error:
        log.event("warning", "the home folder cannot be written to: the metrics are kept in memory", problem=str(error))
        path = _IN_MEMORY / f"relaydeck-metrics-{os.getpid()}-{secrets.token_hex(8)}"
        allocate(path, processes)
    return path


def _require_both(tls_cert: Path | None, tls_key: Path | None) -> None:
    if (tls_cert is None) != (tls_key is None):
        raise OperatorError("--tls-cert and --tls-key require each other", "Pass both, or neither.")
    for path in (tls_cert, tls_key):
        if path is not None and not path.is_file():
            raise OperatorError(f"there is no file {path}")


def _require_free(host: str, port: int) -> None:
    """Workers share the port (SO_REUSEPORT), so the kernel would silently let a second service share it too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OperatorError(
                f"cannot listen on {host_in_url(host)}:{port}: {error.strerror}",
                "Choose another --host or --port.",
            ) from None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
