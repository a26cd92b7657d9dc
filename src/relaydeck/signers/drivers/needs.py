"""Checks that what the settings of drivers need exists: the drivers and a file of certificates."""

from collections.abc import Iterator

from relaydeck.errors import OperatorError
from relaydeck.setting_needs import MissingNeed
from relaydeck.settings import Settings
from relaydeck.signers.drivers.authorities import trusted_authorities


def missing_driver_needs(settings: Settings) -> Iterator[MissingNeed]:
    yield from _missing_drivers(settings)
    yield from _missing_authorities(settings)


def _missing_drivers(settings: Settings) -> Iterator[MissingNeed]:
    if settings.driver_bindings == Settings().driver_bindings:
        return  # a driver of this package; finding out what is installed takes tens of milliseconds
    from relaydeck.signers.drivers.registry import load_driver

    for signer_type, name in settings.driver_bindings.items():
        try:
            load_driver(name)
        except OperatorError as error:
            remark = f"RELAYDECK_DRIVER_{signer_type.upper()} cannot be used: {error.problem}"
            yield MissingNeed(f"{remark}. {error.remedy.rstrip('.')}")


def _missing_authorities(settings: Settings) -> Iterator[MissingNeed]:
    if settings.driver_ca_file is None:
        return
    try:
        trusted_authorities(settings.driver_ca_file)
    except OperatorError as error:
        remark = f"{error.problem}: {error.remedy.rstrip('.')}"
        if settings.driver_bindings:
            yield MissingNeed(remark)
        else:
            yield MissingNeed(f"{remark}; nothing uses it now, because no driver is bound", stops=False)
