"""One check: what it says of the key, and of the relayers that use it."""

import itertools
from importlib.metadata import EntryPoints

import pytest

from relaydeck.secret import Secret
from relaydeck.signers.check import SignerCheck, check_signer, compared
from relaydeck.signers.drivers import registry
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.signers.signer_types import KmsConfig, LocalConfig, NewSigner
from tests.support.driver_settings import bound

KEY = LocalConfig(key=Secret("0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"))
ADDRESS = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"
OTHER = "0x" + "11" * 20


async def checked(relayers: dict[str, str], config: LocalConfig = KEY) -> SignerCheck:
    keys = SignerKeys(bound({"plain": "local"}))
    ticks = itertools.count(0, 0.25)
    result = await check_signer(
        keys, NewSigner("s1", "plain", config), clock=lambda: 1700000000.5, timer=lambda: next(ticks)
    )
    await keys.close()
    return compared(result, relayers)


async def test_a_key_that_no_relayer_uses() -> None:
    assert await checked({}) == SignerCheck(
        "s1", 1700000000, 250, "ok", "the key signed a challenge; no relayer uses this signer", ADDRESS
    )


async def test_a_key_whose_relayers_have_its_address() -> None:
    result = await checked({"r1": ADDRESS.lower(), "r2": ADDRESS})
    assert result == SignerCheck(
        "s1",
        1700000000,
        250,
        "ok",
        "the key signed a challenge, and its address matches the 2 relayers that use this signer",
        ADDRESS,
    )


async def test_a_relayer_with_another_address_is_named() -> None:
    result = await checked({"r1": ADDRESS, "r2": OTHER})
    assert result == SignerCheck(
        "s1",
        1700000000,
        250,
        "mismatch",
        f"the key signs for {ADDRESS}, but relayer 'r2' has {OTHER}",
        ADDRESS,
        ("r2",),
    )


async def test_many_relayers_are_counted() -> None:
    result = await checked({f"r{number}": OTHER for number in range(5)})
    assert result.explanation.endswith(f"'r2' has {OTHER} and 2 more")
    assert len(result.mismatched) == 5


async def test_a_key_that_is_none() -> None:
    result = await checked({}, config=LocalConfig(key=Secret("hunter2")))
    assert result == SignerCheck(
        "s1", 1700000000, 250, "wrong_key_kind", "config.key is not a 32-byte hexadecimal private key"
    )


async def test_loading_the_driver_is_none_of_the_time_that_the_key_system_took(monkeypatch: pytest.MonkeyPatch) -> None:
    now, installed = [0.0], registry.installed

    def find_slowly() -> EntryPoints:
        now[0] += 5
        return installed()

    monkeypatch.setattr(registry, "installed", find_slowly)
    keys = SignerKeys(bound({"plain": "local"}))
    result = await check_signer(keys, NewSigner("s1", "plain", KEY), timer=lambda: now[0])
    await keys.close()
    assert (now, result.milliseconds) == ([5.0], 0)


# sentence: 2.2-providers
async def test_an_unbound_type_names_its_setting_and_took_no_time_that_is_known() -> None:
    result = await check_signer(
        SignerKeys(bound({})), NewSigner("s1", "provider_a_kms", KmsConfig(key_id="k", region="r"))
    )
    assert (result.outcome, result.milliseconds, result.explanation) == (
        "unbound",
        None,
        "no driver is bound to this type: set RELAYDECK_DRIVER_PROVIDER_A_KMS",
    )
