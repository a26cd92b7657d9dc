"""Drivers by name, found through the entry points of installed packages."""

from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any

from relaydeck.errors import OperatorError
from relaydeck.signers.drivers.interface import Driver, DriverContext
from relaydeck.signers.signer_types import SHAPES

GROUP = "relaydeck.drivers"
MakeDriver = Callable[[DriverContext], Driver[Any]]


@cache
def installed() -> EntryPoints:
    """To find them takes tens of milliseconds, and they do not change while a process runs."""
    return entry_points(group=GROUP)


def driver_names() -> list[str]:
    return sorted(installed().names)


def load_driver(name: str) -> MakeDriver:
    """For a thread: the libraries of a driver take up to a second. Raises OperatorError when there is no such one."""
    return _load(_find(name))


def require_suitable(driver: Driver[Any], name: str, signer_type: str) -> None:
    """Raises OperatorError when the driver is for another type of signer."""
    if driver.config_type is not SHAPES[signer_type]:
        raise OperatorError(
            f"the driver {name!r} cannot be bound to signers of the type {signer_type!r}",
            f"Correct RELAYDECK_DRIVER_{signer_type.upper()}; docs/signers.md lists which driver suits which type.",
        )


def _find(name: str) -> EntryPoint:
    found = [point for point in installed() if point.name == name]
    if not found:
        raise OperatorError(
            f"there is no driver {name!r}", f"Installed drivers: {', '.join(driver_names()) or 'none'}."
        )
    return found[0]


def _load(point: EntryPoint) -> MakeDriver:
    try:
        make: MakeDriver = point.load()
    except ImportError as error:
        raise OperatorError(
            f"the driver {point.name!r} needs the package {error.name or 'that it imports'}, which is not installed",
            "Install the extra that docs/signers.md names for it.",
        ) from None
    return make
