"""`relaydeck serve`: prepare the home, warn the operator where needed, run the server."""

import re
import resource
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import click

from relaydeck.cli.home import change_in, key_system, service_log
from relaydeck.cli.options import PATH, as_json, serves_home, setting_value
from relaydeck.cli.output import Shape, about
from relaydeck.cli.server import require_free, run_server
from relaydeck.credentials import tokens
from relaydeck.credentials.grants import Grant
from relaydeck.credentials.tokens import digest_of, new_token
from relaydeck.errors import OperatorError
from relaydeck.log import Log
from relaydeck.process.wrapped_keys import WRAPPED_KEYS, is_wrapped
from relaydeck.quantities import first_few
from relaydeck.roles import Role
from relaydeck.secret import Secret
from relaydeck.settings import values
from relaydeck.settings.model import Settings, read_settings, setting_warnings
from relaydeck.settings.needs import MissingNeed, missing_needs
from relaydeck.store.files import is_open_to_others
from relaydeck.store.open_store import Store, open_store
from relaydeck.web_addresses import host_in_url, is_loopback

_BOOTSTRAP_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{32,256}")


def accept_bootstrap_token(path: Path | None, kind: Role, store: Store, log: Log) -> None:
    """Make the token in the file at `path` the only one named `bootstrap`."""
    if path is None:
        return
    token = read_bootstrap_token(path)
    digest = digest_of(token.reveal().encode())
    named = [each for each in tokens.all_tokens(store.database) if each.name == "bootstrap"]
    last = named[-1] if named else None
    if last is not None and last.is_authentic(store.vault.proofs) and _is_current(last, digest, kind, log):
        return
    with change_in(store) as change:
        tokens.revoke(change, "bootstrap")
        # An earlier file may have contained the same token, or the same token as another kind: start afresh.
        tokens.forget(change.transaction, digest)
        tokens.issue(change, "bootstrap", Grant(role=kind), token)


def _is_current(last: tokens.Token, digest: bytes, kind: Role, log: Log) -> bool:
    if last.digest != digest:
        return False
    if last.revoked_at is not None:
        log.event("warning", "the bootstrap token is revoked and stays revoked: put another one in its file")
        return True
    return last.kind == kind


def read_bootstrap_token(path: Path) -> Secret:
    try:
        token = path.read_text("ascii").strip()
    except OSError as error:
        raise OperatorError(
            f"the bootstrap token file {path} cannot be read: {error.strerror}",
            "Create it, or correct RELAYDECK_BOOTSTRAP_TOKEN_FILE.",
        ) from None
    except UnicodeDecodeError:
        token = ""
    if not _BOOTSTRAP_TOKEN.fullmatch(token):
        raise OperatorError(
            f"the bootstrap token file {path} cannot be used",
            "It must contain 32 to 256 characters of A-Z a-z 0-9 - . _ ~ + / = and nothing else.",
        )
    return Secret(token)


def print_first_token(store: Store, address: str, documentation: str, log: Log) -> None:
    """On a terminal, issue a token if there is none; elsewhere only log, because logs must not contain tokens."""
    issued = tokens.all_tokens(store.database)
    if any(token.is_live(time.time()) and token.is_authentic(store.vault.proofs) for token in issued):
        return
    if not sys.stdout.isatty():
        log.event("warning", "there is no access token yet: create one with 'relaydeck token create NAME'")
        return
    token = new_token()
    with change_in(store) as change:
        used = {each.name for each in issued}
        name = f"first-{len(used) + 1}" if "first" in used else "first"
        tokens.issue(change, name, Grant(role=Role.API), token)
    sys.stdout.write(_welcome(token, address, documentation))
    sys.stdout.flush()


def _welcome(token: Secret, address: str, documentation: str) -> str:
    return f"""
This is your first access token, for /api/v1. It is shown only once: keep it somewhere safe.

  export TOKEN={token.reveal()}

Try it:

  curl -s {address}/api/v1/signers -H "Authorization: Bearer $TOKEN"
  curl -s {address}/api/v1/signers -H "Authorization: Bearer $TOKEN" \\
    -H "Content-Type: application/json" \\
    -d '{{"type": "provider_a_kms", "config": {{"key_id": "alias/ops", "region": "eu-west-1"}}}}'
{
        documentation
        and f'''
Documentation: {documentation}
'''
    }
"""


_MOST_NAMED = 5


def require_needs(settings: Settings, log: Log) -> None:
    found = [*_driver_needs(settings), *missing_needs(settings)]
    for need in found:
        if not need.stops:
            log.event("warning", need.remark)
    if problems := [need.remark for need in found if need.stops]:
        raise OperatorError("; ".join(problems), "Correct these settings, or provide what they need, and start again.")


def _driver_needs(settings: Settings) -> Iterable[MissingNeed]:
    if settings.core == "on":
        return ()  # it reaches no key
    from relaydeck.signers.drivers.registry import missing_driver_needs

    return missing_driver_needs(settings)


def warn_of_unknown_relayers(settings: Settings, store: Store, log: Log) -> None:
    """Only a warning: a relayer may be created later, and its metrics appear then."""
    from relaydeck.relayers.named_relayers import without_relayer

    missing = without_relayer(store.database.read, settings.metrics_relayers)
    if missing:
        log.event(
            "warning",
            "RELAYDECK_METRICS_RELAYERS names relayers that do not exist: they have no metrics until they are created",
            relayers=first_few(missing, _MOST_NAMED),
        )


def warn_of_plain_http(host: str, log: Log) -> None:
    if not is_loopback(host):
        log.event(
            "warning",
            "PLAIN HTTP ON A NON-LOOPBACK ADDRESS: anyone on the network can read tokens and keys; "
            "pass --tls-cert and --tls-key, or put a TLS proxy in front",
            address=host,
        )


def require_both(tls_cert: Path | None, tls_key: Path | None) -> None:
    if (tls_cert is None) != (tls_key is None):
        raise OperatorError("--tls-cert and --tls-key require each other", "Pass both, or neither.")
    for path in (tls_cert, tls_key):
        if path is not None and not path.is_file():
            raise OperatorError(f"there is no file {path}")


class LogLine(Shape, frozen=True):
    """On standard error, one line for each request and event. Further fields depend on the event."""

    time: Annotated[str, about("When it happened, in UTC.")]
    level: Annotated[Literal["debug", "info", "warning", "error"], about("Its level.")]
    event: Annotated[str, about("What happened.")]


@click.command(epilog="Example:  relaydeck serve --port 8080 --workers 2")
@click.option(
    "--host", callback=setting_value(values.host), help="Address to listen on. Default: RELAYDECK_HOST, else 127.0.0.1."
)
@click.option(
    "--port",
    metavar="INTEGER",
    callback=setting_value(values.port),
    help="Port to listen on, from 1 to 65535. Default: RELAYDECK_PORT, else 8080.",
)
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Worker processes.")
@click.option(
    "--core",
    flag_value="on",
    help="Serve the five operations and health, and nothing else. Default: RELAYDECK_CORE, else off.",
)
@click.option("--tls-cert", type=PATH, help="Certificate chain (PEM), to serve HTTPS. Requires --tls-key.")
@click.option("--tls-key", type=PATH, help="Private key of the certificate (PEM).")
@click.option(
    "--no-migrate",
    is_flag=True,
    help="Refuse a database with an older schema instead of migrating it: run 'relaydeck db migrate' first.",
)
@as_json(LogLine, text="Log in lines of JSON, whatever RELAYDECK_LOG_FORMAT is.")
@serves_home
def serve(
    as_json: bool, workers: int, tls_cert: Path | None, tls_key: Path | None, no_migrate: bool, **given: Any
) -> None:
    """Serve the HTTP interface until SIGTERM or Ctrl-C."""
    # Settings of the command line override those of the environment and the file.
    given["log_format"] = "json" if as_json else None
    settings = read_settings(**{name: value for name, value in given.items() if value is not None})
    WRAPPED_KEYS.find_system = partial(key_system, settings)  # an option may replace what cannot be read
    log = service_log(settings)
    log.write_in_thread()
    try:
        _serve(settings, log, workers, tls_cert, tls_key, migrates=not no_migrate)
    finally:
        log.close()


def _serve(
    settings: Settings, log: Log, workers: int, tls_cert: Path | None, tls_key: Path | None, *, migrates: bool
) -> None:
    host, port = settings.host, settings.port
    for warning in setting_warnings():
        log.event("warning", warning)
    require_needs(settings, log)
    require_both(tls_cert, tls_key)
    if tls_cert is None:
        warn_of_plain_http(host, log)
    require_free(host, port)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would contain keys and tokens
    store = open_store(settings, to_serve=True, migrates=migrates, progress=log.progress)
    if is_open_to_others(settings.master_key_path):
        log.event("warning", f"other users can read the master key; run: chmod 600 {settings.master_key_path}")
    if settings.master_key_from and not is_wrapped(store.vault.master.line):
        log.event(
            "warning", f"{settings.master_key_path} has the master key in clear; run: relaydeck key rotate --master"
        )
    try:
        accept_bootstrap_token(settings.bootstrap_token_file, Role(settings.bootstrap_token_kind), store, log)
        address = f"{'https' if tls_cert else 'http'}://{host_in_url(host)}:{port}"
        print_first_token(store, address, _documentation(settings, address), log)
        if settings.core == "off":
            _prepare_others(settings, store, address, log)
    finally:
        store.close()  # SQLite connections must not be inherited by the workers
    run_server(settings, log, host, port, workers=workers, ssl_cert=tls_cert, ssl_key=tls_key)


def _prepare_others(settings: Settings, store: Store, address: str, log: Log) -> None:
    """What is around the core is loaded only if it is served."""
    from relaydeck.cli.console_link import print_link_on_terminal

    warn_of_unknown_relayers(settings, store, log)
    print_link_on_terminal(store, settings, address)


def _documentation(settings: Settings, address: str) -> str:
    if settings.core == "on":
        return ""
    if settings.operations_address is None:
        return f"{address}/docs"
    host, port = settings.operations_address
    return f"http://{host_in_url(host)}:{port}/docs"
