"""`relaydeck serve`: prepare the home, warn the operator where needed, run the server."""

import resource
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from relaydeck.cli.server import require_free, serve
from relaydeck.cli.start_checks import (
    require_both,
    require_needs,
    warn_of_plain_http,
    warn_of_readable_key,
    warn_of_unknown_relayers,
)
from relaydeck.cli.startup_tokens import accept_bootstrap_token, print_first_token
from relaydeck.credentials.kinds import TokenKind
from relaydeck.log import Log
from relaydeck.settings import Settings, read_settings, setting_warnings
from relaydeck.store.open_store import Store, open_store
from relaydeck.web_addresses import host_in_url


def run(*, workers: int, tls_cert: Path | None, tls_key: Path | None, **given: Any) -> None:
    """`given`: settings of the command line, which override those of the environment and the file."""
    settings = replace(read_settings(), **{name: value for name, value in given.items() if value is not None})
    log = _log(settings)
    log.write_in_thread()
    try:
        _serve(settings, log, workers, tls_cert, tls_key)
    finally:
        log.close()


def _serve(settings: Settings, log: Log, workers: int, tls_cert: Path | None, tls_key: Path | None) -> None:
    host, port = settings.host, settings.port
    for warning in setting_warnings():
        log.event("warning", warning)
    require_needs(settings, log)
    require_both(tls_cert, tls_key)
    if tls_cert is None:
        warn_of_plain_http(host, log)
    require_free(host, port)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would contain keys and tokens
    store = open_store(settings, to_serve=True)
    warn_of_readable_key(settings.master_key_path, log)
    try:
        accept_bootstrap_token(settings.bootstrap_token_file, TokenKind(settings.bootstrap_token_kind), store, log)
        address = f"{'https' if tls_cert else 'http'}://{host_in_url(host)}:{port}"
        print_first_token(store, address, _documentation(settings, address), log)
        if settings.core == "off":
            _prepare_others(settings, store, address, log)
    finally:
        store.close()  # SQLite connections must not be inherited by the workers
    serve(settings, log, host, port, workers=workers, ssl_cert=tls_cert, ssl_key=tls_key)


def _prepare_others(settings: Settings, store: Store, address: str, log: Log) -> None:
    """What is around the core is loaded only if it is served."""
    from relaydeck.cli.console_link import print_link_on_terminal

    warn_of_unknown_relayers(settings, store, log)
    print_link_on_terminal(store, settings, address)


def _documentation(settings: Settings, address: str) -> str:
    """Empty: none is served."""
    if settings.core == "on":
        return ""
    if settings.operations_address is None:
        return f"{address}/docs"
    host, port = settings.operations_address
    return f"http://{host_in_url(host)}:{port}/docs"


def _log(settings: Settings) -> Log:
    as_json = not sys.stderr.isatty() if settings.log_format == "auto" else settings.log_format == "json"
    return Log(as_json=as_json, level=settings.log_level)
