"""The same promises for every driver, against a real Vault, and against stand-ins for systems that cannot be run here.

A promise that a driver has no occasion to keep is not tested for it: `local` sends nothing, so nothing can hang.
"""

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from relaydeck.settings.model import Settings
from relaydeck.signers.check import SignerCheck, check_signer
from relaydeck.signers.drivers.driver_errors import DriverError
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.signers.signer_types import Config, NewSigner
from tests.signers.drivers.aws_stand_in import AwsKmsStandIn
from tests.signers.drivers.google_stand_in import GoogleKmsStandIn
from tests.signers.drivers.system import KeySystem

pytestmark = pytest.mark.slow

VAULT = ["vault-kv", "vault-transit"]
CLOUD = ["aws-kms", "google-kms"]
SERVICES = ["turnkey", "cdp"]
REMOTE = [*CLOUD, *VAULT, *SERVICES]
ALL = ["local", *REMOTE]
SIGNING = [name for name in ALL if name != "vault-transit"]
SIGNING_REMOTELY = [*CLOUD, *SERVICES]


def drivers(names: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("system", names, indirect=True)


@asynccontextmanager
async def keys_for(
    system: KeySystem, settings: Settings | None = None, clock: Callable[[], float] = lambda: 1_800_000_000.0
) -> AsyncIterator[SignerKeys]:
    keys = SignerKeys(settings or system.settings(), clock=clock)
    try:
        yield keys
    finally:
        await keys.close()


async def check(keys: SignerKeys, system: KeySystem, config: Config | None = None) -> SignerCheck:
    return await check_signer(keys, NewSigner("s1", system.signer_type, config or system.config()))


async def outcome(keys: SignerKeys, system: KeySystem, config: Config | None = None) -> str:
    return (await check(keys, system, config)).outcome


@drivers(ALL)
async def test_the_right_key_succeeds(system: KeySystem) -> None:
    async with keys_for(system) as keys:
        assert await outcome(keys, system) == system.succeeds_with


@drivers(SIGNING)
async def test_the_address_is_that_of_the_key(system: KeySystem) -> None:
    async with keys_for(system) as keys:
        assert (await keys.identify(system.signer_type, system.config())).address == system.key.address


@drivers(REMOTE)
async def test_an_unknown_key_is_not_found(system: KeySystem) -> None:
    async with keys_for(system) as keys:
        assert await outcome(keys, system, system.unknown_key()) == "key_not_found"


@drivers([name for name in ALL if name != "cdp"])
async def test_a_key_of_another_kind_is_refused(system: KeySystem) -> None:
    async with keys_for(system) as keys:
        assert await outcome(keys, system, system.key_of_another_kind()) == "wrong_key_kind"


@drivers(REMOTE)
async def test_revoked_access_is_denied_and_recovers_by_itself(system: KeySystem) -> None:
    async with keys_for(system) as keys:
        before = await outcome(keys, system)
        await system.revoke_access()
        revoked = await outcome(keys, system)
        await system.restore_access()
        assert [before, revoked, await outcome(keys, system)] == [
            system.succeeds_with,
            "access_denied",
            system.succeeds_with,
        ]


@drivers(CLOUD)
async def test_a_disabled_key_is_denied(system: AwsKmsStandIn | GoogleKmsStandIn) -> None:
    system.disabled = True
    async with keys_for(system) as keys:
        assert "enabled" in (answer := await check(keys, system)).explanation or "disabled" in answer.explanation
        assert answer.outcome == "access_denied"


@drivers(REMOTE)
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("throttle", "throttled"),
        ("unavailable", "unreachable"),
        ("garbage", "does_not_verify"),
        ("too long", "does_not_verify"),
    ],
)
async def test_a_faulty_answer_has_its_outcome(system: KeySystem, fault: str, expected: str) -> None:
    async with keys_for(system) as keys:
        before = await outcome(keys, system)  # which also logs in, where that is necessary
        system.fault = fault
        faulty = await outcome(keys, system)
        system.fault = ""
        assert [before, faulty, await outcome(keys, system)] == [
            system.succeeds_with,
            expected,
            system.succeeds_with,
        ]


@drivers(REMOTE)
async def test_a_slow_answer_is_waited_for(system: KeySystem) -> None:
    system.fault = "slow"
    async with keys_for(system) as keys:
        assert await outcome(keys, system) == system.succeeds_with


@drivers(REMOTE)
async def test_a_hanging_system_is_left_at_the_deadline(system: KeySystem) -> None:
    system.fault = "hang"
    async with keys_for(system, system.settings(deadline=0.3)) as keys:
        answer = await check(keys, system)
    assert (answer.outcome, answer.explanation) == (
        "unreachable",
        "the key system did not answer within 0.3 seconds",
    )


@drivers(REMOTE)
async def test_a_refused_connection_is_unreachable(system: KeySystem) -> None:
    config = system.config()
    async with keys_for(system) as keys:
        await system.stop()
        answer = await check(keys, system, config)
        await system.start()
    assert answer.outcome == "unreachable"


@drivers([name for name in SIGNING if name != "local"])
async def test_a_signature_of_another_key_does_not_verify(system: KeySystem) -> None:
    system.fault = "other key"
    async with keys_for(system) as keys:
        answer = await check(keys, system)
    assert (answer.outcome, answer.explanation) == (
        "does_not_verify",
        "the key system's signature was not made with this key",
    )


@drivers(SIGNING_REMOTELY)
async def test_a_high_s_proves_the_key_too(system: KeySystem) -> None:
    system.fault = "high s"
    async with keys_for(system) as keys:
        assert await outcome(keys, system) == system.succeeds_with


@drivers(SIGNING)
async def test_each_of_many_challenges_proves_the_key(system: KeySystem) -> None:
    async with keys_for(system) as keys:
        found = await asyncio.gather(*(keys.prove(system.signer_type, system.config()) for _ in range(32)))
    assert {each.address for each in found} == {system.key.address}


@drivers(ALL)
@pytest.mark.parametrize("checks", [50, pytest.param(1000, marks=[pytest.mark.prove, pytest.mark.parallel])])
async def test_checks_at_once_stay_within_the_bound(system: KeySystem, checks: int) -> None:
    config = system.config()
    async with keys_for(system, system.settings(concurrency=8)) as keys:
        outcomes = await asyncio.gather(*(outcome(keys, system, config) for _ in range(checks)))
    assert set(outcomes) == {system.succeeds_with}
    assert system.most_at_once <= 8


@drivers(["vault-kv", "vault-transit", "google-kms"])
async def test_a_token_is_obtained_once_and_renewed_before_it_expires(system: KeySystem) -> None:
    now = 1_800_000_000.0
    obtaining = ("POST /token", "POST /v1/auth/approle/login", "POST /v1/auth/token/renew-self")
    async with keys_for(system, clock=lambda: now) as keys:
        await asyncio.gather(*(outcome(keys, system) for _ in range(10)))
        now += 3500  # of 3600
        await asyncio.gather(*(outcome(keys, system) for _ in range(10)))
        assert len([each for each in system.requests if each in obtaining]) == 1
        now += 60
        assert {await outcome(keys, system) for _ in range(3)} == {system.succeeds_with}
    assert len([each for each in system.requests if each in obtaining]) == 2


@drivers(["aws-kms"])
async def test_expiring_credentials_are_renewed_by_the_platforms_chain(system: AwsKmsStandIn) -> None:
    system.lifetime = timedelta(minutes=5)  # botocore renews what lasts for less than ten
    async with keys_for(system) as keys:
        assert [await outcome(keys, system) for _ in range(2)] == ["ok", "ok"]
    assert len(system.issued) > 1


@drivers(ALL)
async def test_no_secret_is_seen_in_logs_and_errors(system: KeySystem, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []

    async def run(work: Awaitable[object]) -> None:
        try:
            seen.append(repr(await work))
        except DriverError as error:
            seen.extend(traceback.format_exception(error))

    wanted: list[str] = []
    faults = [""] if system.driver == "local" else ["", "other key", "garbage", "unavailable", "throttle", "hang"]
    for fault in faults:
        async with keys_for(system, system.settings(deadline=0.5 if fault == "hang" else 60.0)) as keys:
            system.fault = fault
            await run(keys.prove(system.signer_type, config := system.config()))
            seen.append(repr((keys, config)) + str(await check(keys, system, config)))
            wanted += system.secrets()
    text = "\n".join([*seen, caplog.text])
    assert len(wanted) >= len(faults)
    assert [each for each in wanted if each in text] == []
