"""`relaydeck serve`: prepare the home, say what an operator should know, run the server."""

import logging
import multiprocessing
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from relaydeck.cli.local_changes import change_in
from relaydeck.credentials import token_rows
from relaydeck.credentials.kinds import TokenKind
from relaydeck.credentials.token_changes import issue, revoke
from relaydeck.credentials.token_rows import all_tokens
from relaydeck.credentials.tokens import digest_of, new_token
from relaydeck.errors import OperatorError
from relaydeck.log import Log
from relaydeck.operations_worker import OperationsWorker
from relaydeck.secret import Secret
from relaydeck.settings import Settings, read_settings, unknown_names
from relaydeck.store.open_store import Store, open_store

_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_OWN_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{32,256}")


def run(host: str, port: int, workers: int, tls_cert: Path | None, tls_key: Path | None) -> None:
    settings = read_settings()
    log = _log(settings)
    for warning in unknown_names():
        log.event("warning", warning)
    _require_both(tls_cert, tls_key)
    scheme = "https" if tls_cert else "http"
    if scheme == "http" and not _is_loopback(host):
        log.event(
            "warning",
            "PLAIN HTTP ON A NON-LOOPBACK ADDRESS: tokens and keys cross the network readable by anyone on it; "
            "give --tls-cert and --tls-key, or put a TLS proxy in front",
            address=host,
        )
    _require_free(host, port)
    store = open_store(settings)
    try:
        _accept_bootstrap_token(settings, store, log)
        _first_token(store, f"{scheme}://{_in_url(host)}:{port}", log)
    finally:
        store.close()  # nothing of SQLite may cross into the workers
    _serve(settings, log, host, port, workers, tls_cert, tls_key)


def _serve(
    settings: Settings,
    log: Log,
    host: str,
    port: int,
    workers: int,
    tls_cert: Path | None,
    tls_key: Path | None,
) -> None:
    metrics_path = _fresh_metrics(settings)
    server = _server(settings, log, host, port, workers=workers, ssl_cert=tls_cert, ssl_key=tls_key)
    log.event("info", "serving", address=f"{_in_url(host)}:{port}", workers=workers, version=__version__)
    try:
        with _operations_server(settings, metrics_path, log, port):
            _run(server, partial(Application, settings, metrics_path, log))
    finally:
        metrics_path.unlink(missing_ok=True)
    log.event("info", "stopped")


@contextmanager
def _operations_server(settings: Settings, metrics_path: Path, log: Log, port: int) -> Iterator[None]:
    """Health, metrics and documentation on a port of their own, where the settings ask for one."""
    if settings.operations_address is None:
        yield
        return
    _require_free(*settings.operations_address)
    if settings.operations_address[1] == port:
        raise OperatorError(
            "RELAYDECK_OPERATIONS_ADDRESS has the port of the service itself", "Choose another port for either."
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
    _run(server, load)


def _run(server: AbstractServer[Any], load: Callable[[], Application]) -> None:
    """Serve until SIGTERM, Ctrl-C or the end of the terminal.

    A thread waits for the signal, and the server is told once: its own handler sets a lock that a second signal
    inside the first would wait for, and a signal that another thread receives does not wake the main one.
    Workers inherit the mask, so that one that is told to stop while it starts hears it when it has started.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
    threading.Thread(target=_tell_when_to_stop, args=(server,), daemon=True).start()
    server.serve(target_loader=load, wrap_loader=False)


def _tell_when_to_stop(server: AbstractServer[Any]) -> None:
    signal.sigwait(_ENDINGS)
    server.signal_handler_interrupt()  # type: ignore[no-untyped-call]


def _server(settings: Settings, log: Log, host: str, port: int, **options: Any) -> AbstractServer[Any]:
    return Granian(
        "relaydeck",
        address=host if ":" in host else socket.gethostbyname(host),  # the server takes no names
        port=port,
        interface=Interfaces.ASGI,
        # Only HTTP/1: while the server waits to learn the version, it has no time limit on a silent client.
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=round(settings.header_timeout_seconds * 1000)),
        websockets=False,
        # Connections a worker holds before it stops accepting: idle ones must not keep others out.
        backlog=4096,
        backpressure=16_384,
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
    """The HTTP server's own words go into our log."""

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


def _fresh_metrics(settings: Settings) -> Path:
    path = settings.run_folder / f"metrics-{os.getpid()}"
    path.unlink(missing_ok=True)
    return path


def _require_both(tls_cert: Path | None, tls_key: Path | None) -> None:
    if (tls_cert is None) != (tls_key is None):
        raise OperatorError("--tls-cert and --tls-key go together", "Give both, or neither.")
    for path in (tls_cert, tls_key):
        if path is not None and not path.is_file():
            raise OperatorError(f"there is no file {path}")


def _require_free(host: str, port: int) -> None:
    """The workers share the port, so the kernel would let a second service share it too, unnoticed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OperatorError(
                f"cannot listen on {_in_url(host)}:{port}: {error.strerror}",
                "Choose another --host or --port.",
            ) from None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _accept_bootstrap_token(settings: Settings, store: Store, log: Log) -> None:
    path = settings.bootstrap_token_file
    if path is None:
        return
    token = _own_token(path)
    digest = digest_of(token.reveal().encode())
    kind = TokenKind(settings.bootstrap_token_kind)
    last = [each for each in all_tokens(store.database) if each.name == "bootstrap"][-1:]
    if last and last[0].digest == digest and (last[0].revoked_at is not None or last[0].kind == kind):
        if last[0].revoked_at is not None:
            log.event("warning", "the bootstrap token was revoked and stays so: put another one in its file")
        return
    with change_in(store) as change:
        revoke(change, "bootstrap")
        # A token that an earlier file held comes back, or comes back as another kind: as if it were new.
        token_rows.forget(change.transaction, digest)
        issue(change, "bootstrap", kind, token)


def _own_token(path: Path) -> Secret:
    try:
        token = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        token = ""
    if not _OWN_TOKEN.fullmatch(token):
        raise OperatorError(
            f"the bootstrap token file {path} cannot be used",
            "It must hold 32 to 256 characters of A-Z a-z 0-9 - . _ ~ + / = and nothing else.",
        )
    return Secret(token)


def _first_token(store: Store, address: str, log: Log) -> None:
    if any(token.is_live(time.time()) for token in all_tokens(store.database)):
        return
    if not sys.stdout.isatty():
        log.event("warning", "there is no access token yet: make one with 'relaydeck token create NAME'")
        return
    token = new_token()
    with change_in(store) as change:
        issue(change, _unused_name(store, "first"), TokenKind.API, token)
    sys.stdout.write(_welcome(token, address))
    sys.stdout.flush()


def _unused_name(store: Store, wanted: str) -> str:
    used = {token.name for token in all_tokens(store.database)}
    return wanted if wanted not in used else f"{wanted}-{len(used) + 1}"


def _welcome(token: Secret, address: str) -> str:
    return f"""
This is your first access token. It is shown once; keep it somewhere safe.

  export TOKEN={token.reveal()}

Try it:

  curl -s {address}/api/v1/signers -H "Authorization: Bearer $TOKEN"
  curl -s {address}/api/v1/signers -H "Authorization: Bearer $TOKEN" \\
    -H "Content-Type: application/json" \\
    -d '{{"type": "provider_a_kms", "config": {{"key_id": "alias/ops", "region": "eu-west-1"}}}}'

The interface is described at {address}/docs

"""
