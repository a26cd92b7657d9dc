"""A signer of each type in a running service: its check succeeds, and a relayer gets the address of its key."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from relaydeck.signers.signer_types import encode_secret
from tests.signers.drivers.system import KeySystem
from tests.signers.test_through_the_service import NETWORK
from tests.support.running import Answer, Running, run_command
from tests.support.seeding import issue

TYPES = ["local", "aws-kms", "google-kms", "vault-kv", "turnkey", "cdp"]


class Service:
    def __init__(self, running: Running) -> None:
        self._running = running

    async def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """In a thread: the key system answers in this event loop."""
        return await asyncio.to_thread(self._running.ask, method, f"/admin/v1/{path}", body)


@pytest_asyncio.fixture
async def service(home: Path, system: KeySystem) -> AsyncIterator[Service]:
    assert run_command(home, "apply", "-", stdin=NETWORK).returncode == 0
    settings = {f"driver_{system.signer_type}": system.driver}
    settings |= {f"driver_{name}_endpoint": url for name, url in system.endpoints().items() if name != "plain"}
    running = Running(home, token=issue(home, kind="admin"), driver_allow="127.0.0.1", **settings)
    await asyncio.to_thread(running.__enter__)
    yield Service(running)
    await asyncio.to_thread(running.__exit__, None, None, None)


def signer(system: KeySystem) -> dict[str, Any]:
    config = msgspec.json.decode(msgspec.json.encode(system.config(), enc_hook=encode_secret))
    return {"id": "s1", "type": system.signer_type, "config": config}


RELAYER = {"id": "r1", "name": "One", "network": "dev", "network_type": "evm", "signer_id": "s1"}


@pytest.mark.parametrize("system", TYPES, indirect=True)
async def test_the_check_succeeds_and_the_relayer_gets_its_address(system: KeySystem, service: Service) -> None:
    assert (await service.ask("POST", "signers", signer(system))).status == 201
    made = await service.ask("POST", "relayers", RELAYER)
    assert (made.status, made.json["data"]["address"]) == (201, system.key.address)
    check = (await service.ask("POST", "signers/s1/check")).json["data"]
    assert (check["outcome"], check["address"]) == ("ok", system.key.address)


@pytest.mark.parametrize("system", ["vault-transit"], indirect=True)
async def test_a_key_that_cannot_sign_says_so(system: KeySystem, service: Service) -> None:
    assert (await service.ask("POST", "signers", signer(system))).status == 201
    check = (await service.ask("POST", "signers/s1/check")).json["data"]
    assert (check["outcome"], check["address"]) == ("cannot_sign", None)
    refused = await service.ask("POST", "relayers", RELAYER)
    assert (refused.status, (await service.ask("GET", "relayers")).json["data"]) == (400, [])


@pytest.mark.parametrize("system", [name for name in TYPES if name != "local"], indirect=True)
async def test_revoked_access_is_found_by_the_next_check(system: KeySystem, service: Service) -> None:
    await service.ask("POST", "signers", signer(system))
    await system.revoke_access()
    revoked = (await service.ask("POST", "signers/s1/check")).json["data"]["outcome"]
    await system.restore_access()
    restored = (await service.ask("POST", "signers/s1/check")).json["data"]["outcome"]
    assert [revoked, restored] == ["access_denied", "ok"]
