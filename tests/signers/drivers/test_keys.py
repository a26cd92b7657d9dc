"""Bindings, other people's drivers, and what `SignerKeys` does for all of them."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from typing import ClassVar

import pytest

from relaydeck.secret import Secret
from relaydeck.signers.drivers import registry
from relaydeck.signers.drivers.driver_errors import KeySystemUnreachable, NotBound
from relaydeck.signers.drivers.interface import DriverContext, DriverOptions, KeyIdentity, RawSignature
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.signers.signer_types import Config, KmsConfig, LocalConfig

KMS = KmsConfig(key_id="k", region="r")


class BrokenDriver:
    """Another team's driver, with a fault that quotes a secret."""

    config_type: ClassVar[type[Config]] = KmsConfig

    def __init__(self, context: DriverContext) -> None: ...

    async def identify(self, config: KmsConfig) -> KeyIdentity:
        raise RuntimeError("token hunter2 was refused")

    async def sign_digest(self, config: KmsConfig, digest: bytes) -> RawSignature:
        raise NotImplementedError

    async def close(self) -> None: ...


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    added = EntryPoint("broken", f"{__name__}:BrokenDriver", registry.GROUP)
    missing = EntryPoint("missing", "package_that_is_not_installed:Driver", registry.GROUP)
    others = EntryPoints([*registry.installed(), added, missing])
    monkeypatch.setattr(registry, "installed", lambda: others)
    yield "broken"


async def prove(config: Config, **bindings: str) -> None:
    """With a signer of the type of the one binding."""
    keys = SignerKeys(bindings, DriverOptions())
    try:
        await keys.prove(next(iter(bindings), "provider_a_kms"), config)
    finally:
        await keys.close()


def test_the_drivers_of_this_package() -> None:
    assert registry.driver_names() == [
        "aws-kms",
        "cdp",
        "google-kms",
        "local",
        "turnkey",
        "vault-kv",
        "vault-transit",
    ]


async def test_an_unbound_type_names_its_setting() -> None:
    with pytest.raises(NotBound, match="RELAYDECK_DRIVER_PROVIDER_A_KMS"):
        await prove(KMS)


async def test_an_unknown_driver_lists_those_that_are_installed() -> None:
    with pytest.raises(NotBound) as failure:
        await prove(LocalConfig(key=Secret("")), plain="locale")
    assert str(failure.value) == (
        "there is no driver 'locale'. "
        "Installed drivers: aws-kms, cdp, google-kms, local, turnkey, vault-kv, vault-transit."
    )


async def test_a_driver_for_another_type_is_refused() -> None:
    with pytest.raises(NotBound, match="'local' cannot be bound to signers of the type 'provider_a_kms'"):
        await prove(KMS, provider_a_kms="local")


async def test_a_missing_library_is_named(broken: str) -> None:
    with pytest.raises(NotBound, match="needs the package package_that_is_not_installed"):
        await prove(KMS, provider_a_kms="missing")


async def test_a_package_can_add_a_driver_and_its_faults_show_no_secret(broken: str) -> None:
    with pytest.raises(KeySystemUnreachable) as failure:
        await prove(KMS, provider_a_kms=broken)
    assert str(failure.value) == "the driver 'broken' failed with RuntimeError"


def test_a_check_imports_nothing_in_the_event_loop() -> None:
    """Libraries are loaded with the package, in a thread: the one for Keccak takes a tenth of a second."""
    code = """
import asyncio, sys
from relaydeck.secret import Secret
from relaydeck.signers.drivers import local
from relaydeck.signers.drivers.interface import DriverOptions
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.signers.signer_types import LocalConfig

async def prove():
    loaded = set(sys.modules)
    keys = SignerKeys({"plain": "local"}, DriverOptions())
    await keys.prove("plain", LocalConfig(key=Secret("0x" + "5a" * 32)))
    await keys.close()
    print(sorted(name for name in set(sys.modules) - loaded if "." not in name))

asyncio.run(prove())
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
