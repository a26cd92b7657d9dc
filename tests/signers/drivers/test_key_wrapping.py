"""Key systems that wrap the master key: the real Vault, and the stand-ins of AWS KMS and Cloud KMS."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relaydeck.errors import OperatorError
from relaydeck.process.wrapped_keys import WrappedKeys
from relaydeck.settings.model import Settings
from relaydeck.settings.values import KeySource, key_source
from relaydeck.signers.drivers.key_wrapping import DriverKeySystem
from tests.signers.drivers.aws_stand_in import REGION, RSA_KEY_ID, WRAPPING_KEY_ID, AwsKmsStandIn
from tests.signers.drivers.google_stand_in import WRAPPING, GoogleKmsStandIn
from tests.signers.drivers.system import KeySystem
from tests.signers.drivers.test_conformance import drivers
from tests.signers.drivers.vault_system import VaultTransitSystem

KEY = os.urandom(32)
EVERY = drivers(["vault-transit", "aws-kms", "google-kms"])


def source(system: KeySystem, folder: Path, **changed: Any) -> KeySource:
    """What an operator sets, with the credentials in files."""

    def file(name: str, text: str) -> dict[str, str]:
        (folder / name).write_text(f"{text}\n")
        return {"file": str(folder / name)}

    fields: dict[str, Any] = {"driver": system.driver}
    match system:
        case VaultTransitSystem():
            roles = {"role_id": file("role", system.role_id), "secret_id": file("secret", system.secret_id)}
            fields |= {"address": system.url, "key_name": f"{system.name}-symmetric", **roles}
        case AwsKmsStandIn():
            fields |= {"key_id": WRAPPING_KEY_ID, "region": REGION, "endpoint": system.url}
        case GoogleKmsStandIn():
            account = file("account", bytes(system.config().service_account).decode())
            fields |= {"key": WRAPPING, "service_account": account, "endpoint": system.url}
    found = key_source(json.dumps(fields | changed))
    assert found is not None
    return found


class Wraps:
    """The blocking calls of a process, in a thread: the event loop of the test serves the key system."""

    def __init__(self, where: KeySource, deadline: float = 60.0) -> None:
        self.pauses: list[float] = []
        self.on_pause: Callable[[], None] = lambda: None
        self._system = DriverKeySystem(Settings(driver_deadline_seconds=deadline), where, self._pause)

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.on_pause()

    async def wrap(self, key: bytes = KEY) -> str:
        return await asyncio.to_thread(self._system.wrap, key)

    async def unwrap(self, wrapped: str, *, patient: bool = True) -> bytes:
        return await asyncio.to_thread(self._system.unwrap, wrapped, patient=patient)

    async def problem(self, wrapped: str = "", *, patient: bool = True) -> str:
        with pytest.raises(OperatorError) as error:
            await (self.unwrap(wrapped, patient=patient) if wrapped else self.wrap())
        return error.value.problem


@EVERY
async def test_a_key_is_wrapped_and_unwrapped(system: KeySystem, tmp_path: Path) -> None:
    wraps = Wraps(source(system, tmp_path))
    wrapped = await wraps.wrap()
    assert KEY.hex() not in wrapped and len(wrapped.splitlines()) == 1
    assert await wraps.unwrap(wrapped) == KEY
    assert await wraps.unwrap(wrapped, patient=False) == KEY
    assert wraps.pauses == []


@EVERY
async def test_what_another_key_wrapped_does_not_open(system: KeySystem, tmp_path: Path) -> None:
    wraps = Wraps(source(system, tmp_path))
    wrapped = await wraps.wrap()
    changed = wrapped[:-6] + ("B" if wrapped[-6] == "A" else "A") + wrapped[-5:]
    reasons = {
        "vault-transit": "Vault has no such key, or it cannot encrypt, or another key wrapped the master key",
        "aws-kms": "AWS KMS did not wrap this with this key, or it was changed since",
        "google-kms": "Cloud KMS refuses to use this key for this: it is of another kind, or another key wrapped the"
        " master key",
    }
    failed = f"the key system of the master key, {system.driver}, fails: {reasons[system.driver]}"
    assert await wraps.problem(changed) == failed
    assert wraps.pauses == []


@EVERY
async def test_a_start_waits_a_few_seconds_for_the_key_system(system: KeySystem, tmp_path: Path) -> None:
    wraps = Wraps(source(system, tmp_path))
    wrapped, system.fault = await wraps.wrap(), "unavailable"
    wraps.on_pause = lambda: setattr(system, "fault", "" if len(wraps.pauses) == 3 else "throttle")
    assert await wraps.unwrap(wrapped) == KEY
    assert wraps.pauses == [0.5, 1.0, 2.0]


@EVERY
async def test_a_start_gives_up(system: KeySystem, tmp_path: Path) -> None:
    wraps = Wraps(source(system, tmp_path))
    wrapped, system.fault = await wraps.wrap(), "unavailable"
    what = "the source of the AWS credentials does not answer"  # it is this server, too
    reason = what if system.driver == "aws-kms" else "the key system answered HTTP 503"
    failed = f"the key system of the master key, {system.driver}, fails: {reason}"
    assert await wraps.problem(wrapped) == failed
    assert wraps.pauses == [0.5, 1.0, 2.0, 4.0]
    assert await wraps.problem(wrapped, patient=False) == failed
    assert wraps.pauses == [0.5, 1.0, 2.0, 4.0]  # a service that runs does not wait


@EVERY
async def test_a_key_system_that_hangs_is_given_up(system: KeySystem, tmp_path: Path) -> None:
    wraps = Wraps(source(system, tmp_path), deadline=0.2)
    wrapped = await Wraps(source(system, tmp_path)).wrap()
    system.fault = "hang"
    expected = f"the key system of the master key, {system.driver}, fails: the key system did not answer within 0.2"
    assert await wraps.problem(wrapped, patient=False) == f"{expected} seconds"


@EVERY
@pytest.mark.parametrize("fault", ["garbage", "too long"])
async def test_an_answer_of_another_form_is_refused(system: KeySystem, fault: str, tmp_path: Path) -> None:
    wraps = Wraps(source(system, tmp_path))
    wrapped, system.fault = await wraps.wrap(), fault
    problem = await wraps.problem(wrapped)
    begin = "the driver 'aws-kms' failed with " if system.driver == "aws-kms" else "the key system's answer "
    assert problem.startswith(f"the key system of the master key, {system.driver}, fails: {begin}")


@EVERY
async def test_withdrawn_access_is_explained_and_shows_no_secret(system: KeySystem, tmp_path: Path) -> None:
    where = source(system, tmp_path)
    wraps = Wraps(where)
    wrapped = await wraps.wrap()
    await system.revoke_access()
    problem = await wraps.problem(wrapped)
    assert problem.startswith(f"the key system of the master key, {system.driver}, fails: ")
    assert wraps.pauses == []
    await system.restore_access()
    assert await wraps.unwrap(wrapped) == KEY
    told = f"{problem}{where}{KeySource(*where)!r}"
    assert [secret for secret in system.secrets() if secret in told] == []


@drivers(["aws-kms"])
async def test_a_key_of_aws_that_signs_wraps_nothing(system: AwsKmsStandIn, tmp_path: Path) -> None:
    assert await Wraps(source(system, tmp_path, key_id=RSA_KEY_ID)).problem() == (
        "the key system of the master key, aws-kms, fails: the key's usage in AWS KMS is not SIGN_VERIFY, or"
        " ENCRYPT_DECRYPT for the master key"
    )


@drivers(["google-kms"])
async def test_damage_on_the_way_to_google_is_noticed(system: GoogleKmsStandIn, tmp_path: Path) -> None:
    wraps = Wraps(source(system, tmp_path))
    wrapped, system.damaged = await wraps.wrap(), True
    begin = "the key system of the master key, google-kms, fails: "
    assert await wraps.problem() == f"{begin}Cloud KMS does not confirm that it wrapped this key"
    assert await wraps.problem(wrapped) == f"{begin}the checksum of Cloud KMS's answer does not hold"
    named = Wraps(source(system, tmp_path, key="projects/p"))
    expected = f"{begin}key does not name a key of Cloud KMS: projects/…/cryptoKeys/…"
    assert await named.problem() == expected


@drivers(["vault-transit"])
async def test_settings_that_describe_no_key_are_explained(system: VaultTransitSystem, tmp_path: Path) -> None:
    refused: dict[str, dict[str, Any]] = {
        "RELAYDECK_MASTER_KEY_FROM does not describe a key of vault-transit: Object contains unknown field `region`": {
            "region": "r"
        },
        f"the file {tmp_path} with role_id of RELAYDECK_MASTER_KEY_FROM cannot be read: Is a directory": {
            "role_id": {"file": str(tmp_path)}
        },
        "the driver 'turnkey' cannot wrap the master key": {"driver": "turnkey"},
        "there is no driver 'none'": {"driver": "none"},
    }
    for problem, changed in refused.items():
        assert await Wraps(source(system, tmp_path, **changed)).problem() == problem


class Counted:
    """A key system that turns the letters of a key around."""

    def __init__(self) -> None:
        self.asked: list[bool] = []
        self.is_away = False

    def wrap(self, key: bytes) -> str:
        return key.hex()[::-1]

    def unwrap(self, wrapped: str, *, patient: bool) -> bytes:
        self.asked.append(patient)
        if self.is_away:
            raise OperatorError("it is away", "Wait.")
        return bytes.fromhex(wrapped[::-1])


def test_a_process_asks_once_and_only_its_start_is_patient() -> None:
    system, now = Counted(), [1000.0]
    keys, other = WrappedKeys(lambda: now[0]), WrappedKeys()
    keys.find_system = other.find_system = lambda: system
    first, second = other.wrap(KEY), other.wrap(KEY[::-1])
    assert first == f"wrapped:{KEY.hex()[::-1]}"
    assert [keys.unwrap(first), keys.unwrap(first), other.unwrap(first)] == [KEY] * 3
    assert system.asked == [True]
    system.is_away = True
    for _ in range(2):  # asks the second time only after half a minute
        with pytest.raises(OperatorError, match="it is away"):
            keys.unwrap(second)
    assert (system.asked, keys.unwrap(first)) == ([True, False], KEY)
    with pytest.raises(OperatorError, match="it is away"):
        keys.unwrap(first, anew=True)
    assert keys.unwrap(first) == KEY
    now[0] += 31
    system.is_away = False
    assert keys.unwrap(second) == KEY[::-1]
    assert system.asked == [True, False, False, False]


def test_without_a_key_system_a_key_stays_as_it_is_and_a_wrapped_one_is_explained() -> None:
    keys = WrappedKeys()
    assert (keys.wrap(KEY), keys.unwrap(KEY.hex())) == (KEY.hex(), KEY)
    with pytest.raises(OperatorError) as error:
        keys.unwrap("wrapped:x")
    assert error.value.problem == "a key system wraps the master key, and the settings do not say which"
