"""Checks that what the settings need exists: files and extras. Drivers check theirs: `signers/drivers/registry.py`."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from relaydeck.errors import OperatorError
from relaydeck.settings.model import Settings


class MissingNeed(NamedTuple):
    """Something that a setting names and that does not exist."""

    remark: str
    stops: bool = True  # False: the service starts, because nothing needs what is missing


def missing_needs(settings: Settings) -> Iterator[MissingNeed]:
    path = settings.limits_password_file
    if path is not None and (reason := _unreadable(path)):
        unused = ""
        if settings.limits_url is None:
            unused = "; nothing uses it now, because RELAYDECK_LIMITS_URL is not set"
        elif settings.rate_limit_per_second == 0:
            unused = "; the service does not use it, because there is no rate limit"
        remark = f"RELAYDECK_LIMITS_PASSWORD_FILE names {path}, which cannot be used: {reason}{unused}"
        yield MissingNeed(remark, stops=not unused)
    if settings.otel_endpoint is not None:
        try:
            require_tracing()
        except OperatorError as error:
            yield MissingNeed(error.problem)


def require_tracing() -> None:
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.resources  # noqa: F401
    except ModuleNotFoundError as missing:
        raise OperatorError(
            f"RELAYDECK_OTEL_ENDPOINT needs the extra otel, and its package {missing.name!r} is not installed "
            "(pip install 'relaydeck[otel]', or '.[otel]' in the clone)",
            "Install the extra, or remove the setting.",
        ) from None


def _unreadable(path: Path) -> str:
    try:
        path.read_text("utf-8")
    except OSError as error:
        return str(error.strerror)
    except UnicodeDecodeError:
        return "it is not UTF-8 text"
    return ""
