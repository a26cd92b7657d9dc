"""What `relaydeck serve` checks before it serves: it stops, or warns the operator."""

from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path

from relaydeck.errors import OperatorError
from relaydeck.log import Log
from relaydeck.quantities import first_few
from relaydeck.setting_needs import MissingNeed, missing_needs
from relaydeck.settings import Settings
from relaydeck.store.home_folder import is_open_to_others
from relaydeck.store.open_store import Store

_MOST_NAMED = 5


def require_needs(settings: Settings, log: Log) -> None:
    """Raises OperatorError when a setting needs something that does not exist."""
    found = [*_driver_needs(settings), *missing_needs(settings)]
    for need in found:
        if not need.stops:
            log.event("warning", need.remark)
    if problems := [need.remark for need in found if need.stops]:
        raise OperatorError("; ".join(problems), "Correct these settings, or provide what they need, and start again.")


def _driver_needs(settings: Settings) -> Iterable[MissingNeed]:
    if settings.core == "on":
        return ()  # it reaches no key
    from relaydeck.signers.drivers.needs import missing_driver_needs

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


def warn_of_readable_key(path: Path, log: Log) -> None:
    if is_open_to_others(path):
        log.event("warning", f"other users can read the master key; run: chmod 600 {path}")


def warn_of_plain_http(host: str, log: Log) -> None:
    if not _is_loopback(host):
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


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
