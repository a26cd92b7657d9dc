"""Bindings, other people's drivers, and what `SignerKeys` does for all of them."""

import asyncio
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any, ClassVar

import pytest

from relaydeck.secret import Secret
from relaydeck.signers.drivers import registry
from relaydeck.signers.drivers.driver_errors import ConfigUnusable, KeySystemUnreachable, NotBound
from relaydeck.signers.drivers.interface import DriverContext, KeyIdentity, RawSignature
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.signers.signer_types import Config, KmsConfig, LocalConfig
from tests.signers.drivers.aws_stand_in import KEY_ID, REGION
from tests.signers.drivers.system import KeySystem
from tests.support.certificates import make_certificate
from tests.support.driver_settings import bound

KMS = KmsConfig(key_id="k", region="r")
LOCAL = LocalConfig(key=Secret("0x" + "5a" * 32))


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
    keys = SignerKeys(bound(bindings))
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


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        (RuntimeError("token hunter2"), "the driver 'broken' cannot be started: RuntimeError"),
        (ConfigUnusable("the endpoint is missing"), "the endpoint is missing"),
    ],
)
async def test_a_driver_that_cannot_be_started_is_not_bound(
    broken: str, monkeypatch: pytest.MonkeyPatch, raised: Exception, shown: str
) -> None:
    def start(self: BrokenDriver, context: DriverContext) -> None:
        raise raised

    monkeypatch.setattr(BrokenDriver, "__init__", start)
    with pytest.raises(NotBound) as failure:
        await prove(KMS, provider_a_kms=broken)
    assert str(failure.value) == shown


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_a_file_of_certificates_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    keys = SignerKeys(bound({"plain": "local"}, driver_ca_file=file))
    with pytest.raises(NotBound) as failure:
        await keys.load("plain")
    assert str(failure.value) == (
        f"the certificates in {file} cannot be read. RELAYDECK_DRIVER_CA_FILE must name a readable file in PEM form."
    )


async def test_what_takes_long_is_found_and_read_in_a_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The packages that are installed, and the certificates of the system."""
    threads = {"packages": threading.main_thread(), "certificates": threading.main_thread()}

    def noting(what: str, work: Callable[[], Any]) -> Callable[[], Any]:
        def note() -> Any:
            threads[what] = threading.current_thread()
            return work()

        return note

    monkeypatch.setattr(registry, "installed", noting("packages", registry.installed))
    monkeypatch.setattr(ssl, "create_default_context", noting("certificates", ssl.create_default_context))
    keys = SignerKeys(bound({"plain": "local"}, driver_ca_file=make_certificate(tmp_path, "localhost")))
    await keys.prove("plain", LOCAL)
    await keys.close()
    assert threading.current_thread() not in threads.values()


async def test_two_first_uses_at_the_same_time_share_a_driver(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(BrokenDriver, "__init__", lambda self, context: made.append(self))
    keys = SignerKeys(bound({"provider_a_kms": broken}))
    await asyncio.gather(*(keys.load("provider_a_kms") for _ in range(2)))
    await keys.close()
    assert len(made) == 1


FIRST_CHECK = """
import asyncio, sys, threading
from relaydeck.secret import Secret
from relaydeck.settings.model import read_settings
from relaydeck.signers.check import check_signer
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.signers.signer_types import KmsConfig, LocalConfig, NewSigner

class Watch:
    '''Comes before every finder of modules, and finds none.'''

    def find_spec(self, name, path=None, target=None):
        imported[threading.current_thread() is threading.main_thread()].append(name)

imported = {{True: [], False: []}}

async def check():
    await asyncio.to_thread(int)  # as in a worker, which has used a thread before
    sys.meta_path.insert(0, Watch())
    access = SignerKeys(read_settings())
    found = await check_signer(access, NewSigner("s1", {type!r}, {config}))
    await access.close()
    print(found.outcome, imported[True], {library!r} in imported[False])

asyncio.run(check())
"""


@pytest.mark.parametrize(
    ("system", "config", "library"),
    [
        ("local", "LocalConfig(key=Secret('0x' + '5a' * 32))", "relaydeck.signers.drivers.local"),
        ("aws-kms", f"KmsConfig(key_id={KEY_ID!r}, region={REGION!r})", "botocore.session"),
    ],
    indirect=["system"],
    ids=["local", "aws-kms"],
)
async def test_a_check_imports_nothing_in_the_event_loop(system: KeySystem, config: str, library: str) -> None:
    """The driver and its libraries are loaded in a thread: they take up to a second."""
    code = FIRST_CHECK.format(type=system.signer_type, config=config, library=library)
    setting = f"RELAYDECK_DRIVER_{system.signer_type.upper()}"
    environment = {**os.environ, setting: system.driver, f"{setting}_ENDPOINT": system.url}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, env=environment, stdout=subprocess.PIPE)
    printed, _ = await process.communicate()
    assert printed.decode() == "ok [] True\n"
