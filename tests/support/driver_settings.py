"""Settings that bind drivers."""

from collections.abc import Mapping
from typing import Any

from relaydeck.settings.model import Drivers, Settings


def bound(bindings: Mapping[str, str], endpoints: Mapping[str, str] | None = None, **others: Any) -> Settings:
    """`bindings`: the driver of each signer type that has one."""
    return Settings(drivers=Drivers(dict(bindings), dict(endpoints or {})), **others)
