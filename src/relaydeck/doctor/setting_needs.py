"""Checks that what the settings need exists: drivers, files, an extra. `relaydeck serve` checks it before it serves."""

from collections.abc import Iterator
from pathlib import Path

from relaydeck.doctor.finding import Finding
from relaydeck.errors import OperatorError
from relaydeck.settings import Settings
from relaydeck.signers.drivers.authorities import trusted_authorities
from relaydeck.tracing_extra import load_tracing

_SUBJECT = "settings"


def need_findings(settings: Settings) -> Iterator[Finding]:
    """FAIL: the service does not start. warn: it does, because nothing needs what is missing."""
    yield from _driver_findings(settings)
    yield from _authority_findings(settings)
    yield from _password_findings(settings)
    yield from _tracing_findings(settings)


def _driver_findings(settings: Settings) -> Iterator[Finding]:
    if settings.driver_bindings == Settings().driver_bindings:
        return  # a driver of this package; finding out what is installed takes tens of milliseconds
    from relaydeck.signers.drivers.registry import load_driver

    for signer_type, name in settings.driver_bindings.items():
        try:
            load_driver(name)
        except OperatorError as error:
            remark = f"RELAYDECK_DRIVER_{signer_type.upper()} cannot be used: {error.problem}"
            yield Finding("FAIL", _SUBJECT, f"{remark}. {error.remedy.rstrip('.')}")


def _authority_findings(settings: Settings) -> Iterator[Finding]:
    if settings.driver_ca_file is None:
        return
    try:
        trusted_authorities(settings.driver_ca_file)
    except OperatorError as error:
        remark = f"{error.problem}: {error.remedy.rstrip('.')}"
        if settings.driver_bindings:
            yield Finding("FAIL", _SUBJECT, remark)
        else:
            yield Finding("warn", _SUBJECT, f"{remark}; nothing uses it now, because no driver is bound")


def _password_findings(settings: Settings) -> Iterator[Finding]:
    path = settings.limits_password_file
    if path is None or (reason := _unreadable(path)) is None:
        return
    remark = f"RELAYDECK_LIMITS_PASSWORD_FILE names {path}, which cannot be used: {reason}"
    if settings.limits_url is None:
        yield Finding("warn", _SUBJECT, f"{remark}; nothing uses it now, because RELAYDECK_LIMITS_URL is not set")
    elif settings.rate_limit_per_second == 0:
        yield Finding("warn", _SUBJECT, f"{remark}; the service does not use it, because there is no rate limit")
    else:
        yield Finding("FAIL", _SUBJECT, remark)


def _tracing_findings(settings: Settings) -> Iterator[Finding]:
    if settings.otel_endpoint is None:
        return
    try:
        load_tracing()
    except OperatorError as error:
        yield Finding("FAIL", _SUBJECT, error.problem)


def _unreadable(path: Path) -> str | None:
    try:
        path.read_text("utf-8")
    except OSError as error:
        return error.strerror or type(error).__name__
    except UnicodeDecodeError:
        return "it is not UTF-8 text"
    return None
