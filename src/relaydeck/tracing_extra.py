"""Loads the code of traces, which needs the extra `otel`."""

from importlib import import_module
from types import ModuleType

from relaydeck.errors import OperatorError

_TRACING = "relaydeck.tracing"


def load_tracing() -> ModuleType:
    """`relaydeck.tracing`. Raises OperatorError when the extra is not installed."""
    try:
        return import_module(_TRACING)
    except ModuleNotFoundError as missing:
        raise OperatorError(
            f"RELAYDECK_OTEL_ENDPOINT needs the extra otel, and its package {missing.name!r} is not installed "
            "(pip install '.[otel]' in the clone)",
            "Install the extra, or remove the setting.",
        ) from None
