"""Finds drivers by name, through the entry points of installed packages, and checks what their settings need.

Ours are in `pyproject.toml`; each is a module beside this one.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any

from relaydeck.errors import OperatorError
from relaydeck.settings.model import Settings
from relaydeck.settings.needs import MissingNeed
from relaydeck.signers.drivers.http_client import trusted_authorities
from relaydeck.signers.drivers.interface import Driver, DriverContext

GROUP = "relaydeck.drivers"
MakeDriver = Callable[[DriverContext], Driver[Any]]


@cache
def installed() -> EntryPoints:
    """To find them takes tens of milliseconds, and they do not change while a process runs."""
    return entry_points(group=GROUP)


def driver_names() -> list[str]:
    return sorted(installed().names)


def load_driver(name: str) -> MakeDriver:
    """For a thread: the libraries of a driver take up to a second. Raises OperatorError when it cannot be loaded."""
    point = next((each for each in installed() if each.name == name), None)
    if point is None:
        raise OperatorError(
            f"there is no driver {name!r}", f"Installed drivers: {', '.join(driver_names()) or 'none'}."
        )
    try:
        make: MakeDriver = point.load()
    except ImportError as error:
        raise OperatorError(
            f"the driver {name!r} needs the package {error.name or 'that it imports'}, which is not installed",
            f"Install it{_extra_with(point, error.name or '')}.",
        ) from None
    return make


def _extra_with(point: EntryPoint, package: str) -> str:
    """How to install what a driver lacks, if its distribution declares an extra with it."""
    name = re.escape(package.partition(".")[0])
    declared = re.compile(rf"{name}\b.*extra == ['\"](?!dev\b)(\w+)['\"]")
    found = [match[1] for each in (point.dist and point.dist.requires) or () if (match := declared.match(each))]
    return f": pip install 'relaydeck[{found[0]}]', or '.[{found[0]}]' in the clone" if found else ""


def missing_driver_needs(settings: Settings) -> Iterator[MissingNeed]:
    bound = settings.drivers.bindings
    if bound != Settings().drivers.bindings:  # or else it is one of this package: finding what is installed takes long
        yield from _missing_drivers(bound)
    if settings.driver_ca_file is None:
        return
    try:
        trusted_authorities(settings.driver_ca_file)
    except OperatorError as error:
        unused = "" if bound else "; nothing uses it now, because no driver is bound"
        yield MissingNeed(f"{error.problem}: {error.remedy.rstrip('.')}{unused}", stops=bool(bound))


def _missing_drivers(bound: Mapping[str, str]) -> Iterator[MissingNeed]:
    for signer_type, name in bound.items():
        try:
            load_driver(name)
        except OperatorError as error:
            remark = f"RELAYDECK_DRIVER_{signer_type.upper()} cannot be used: {error.problem}"
            yield MissingNeed(f"{remark}. {error.remedy.rstrip('.')}")
