"""`relaydeck serve`: prepare the home, warn the operator where needed, run the server."""

import resource
import sys
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from relaydeck.cli.console_link import host_in_url, print_link_on_terminal
from relaydeck.cli.server import require_free, serve
from relaydeck.cli.startup_tokens import accept_bootstrap_token, print_first_token
from relaydeck.credentials.kinds import TokenKind
from relaydeck.doctor.machine import is_open_to_others
from relaydeck.errors import OperatorError
from relaydeck.log import Log
from relaydeck.settings import Settings, read_settings, setting_warnings
from relaydeck.store.open_store import open_store


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
    require_free(host, port)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would contain keys and tokens
    store = open_store(settings, to_serve=True)
    _warn_of_readable_key(settings.master_key_path, log)
    try:
        accept_bootstrap_token(settings.bootstrap_token_file, TokenKind(settings.bootstrap_token_kind), store, log)
        address = f"{'https' if tls_cert else 'http'}://{host_in_url(host)}:{port}"
        print_first_token(store, address, log)
        print_link_on_terminal(store, settings, address)
    finally:
        store.close()  # SQLite connections must not be inherited by the workers
    serve(settings, log, host, port, workers=workers, ssl_cert=tls_cert, ssl_key=tls_key)


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


def _log(settings: Settings) -> Log:
    as_json = not sys.stderr.isatty() if settings.log_format == "auto" else settings.log_format == "json"
    return Log(as_json=as_json, level=settings.log_level)


def _require_both(tls_cert: Path | None, tls_key: Path | None) -> None:
    if (tls_cert is None) != (tls_key is None):
        raise OperatorError("--tls-cert and --tls-key require each other", "Pass both, or neither.")
    for path in (tls_cert, tls_key):
        if path is not None and not path.is_file():
            raise OperatorError(f"there is no file {path}")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
