"""A relayer spends on a real node until the monitor warns, and is topped up until it takes the warning back."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from relaydeck.relayers import balance_history
from relaydeck.relayers.balance_history import BalancePeriod
from tests.node.process import HARDHAT, running
from tests.relayers.test_through_the_service import kinds, provision, served, until
from tests.support.receiver import Receiver
from tests.support.running import run_command
from tests.support.seeding import opened

ETHER = 10**18
HOUR = 3600
# Accounts of the development chain, with 10,000 ether each. The node holds their keys.
RELAYER = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
FUNDERS = ("0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC")
RECEIVER = "0x90F79bf6EB2c4f870365E785982E1f101E93b906"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = await Receiver().start()
    yield receiver
    await receiver.stop()


def pay(url: str, sender: str, to: str, ether: int) -> None:
    transaction = {"from": sender, "to": to, "value": hex(ether * ETHER)}
    question = {"jsonrpc": "2.0", "id": 1, "method": "eth_sendTransaction", "params": [transaction]}
    assert "result" in httpx.post(url, json=question, timeout=60).json()


def spent_before(home: Path, ether_an_hour: int) -> None:
    """The history of a relayer that spent for thirty hours and has 10,000 ether left."""
    now = int(time.time())
    periods = [
        BalancePeriod(
            since=now - ago * HOUR,
            until=now - ago * HOUR,
            balance=(10_000 + ago * ether_an_hour) * ETHER,
            spent=(30 - ago) * ether_an_hour * ETHER,
        )
        for ago in range(30, 0, -1)
    ]
    with opened(home) as store, store.database.transaction() as transaction:
        balance_history.save(transaction, [(1, each) for each in periods])


def forecast(home: Path) -> dict[str, Any]:
    fuel = json.loads(run_command(home, "relayer", "runway", "r1", "--json").stdout)
    return dict(fuel["runway"])


async def test_it_warns_while_the_relayer_spends_and_recovers_with_a_top_up(home: Path, receiver: Receiver) -> None:
    with running(HARDHAT) as url:
        provision(home, receiver, url, address=RELAYER)
        spent_before(home, ether_an_hour=300)
        async with served(home) as service:
            await until(lambda: forecast(home)["balance"] == 10_000 * ETHER, service)
            before = await asyncio.to_thread(forecast, home)
            for _ in range(2):
                await asyncio.to_thread(pay, url, RELAYER, RECEIVER, 2_000)
            await until(lambda: kinds(receiver) == ["relayer.runway_low"], service)
            # An event does not wait for the history, which is written in groups.
            await until(lambda: forecast(home)["balance"] < 6_000 * ETHER, service)
            low = await asyncio.to_thread(forecast, home)
            for funder in FUNDERS:
                await asyncio.to_thread(pay, url, funder, RELAYER, 9_000)
            await until(lambda: len(receiver.got) == 2, service)
            await until(lambda: forecast(home)["balance"] > 20_000 * ETHER, service)
            recovered = await asyncio.to_thread(forecast, home)
    assert [each["low"] for each in (before, low, recovered)] == [False, True, False]
    assert kinds(receiver) == ["relayer.runway_low", "relayer.runway_recovered"]
    warned, ended = (each.json["data"]["details"] for each in receiver.got)
    assert int(warned["seconds_until_minimum"]) < 24 * HOUR < 36 * HOUR <= int(ended["seconds_until_minimum"])
    assert 5_990 * ETHER < int(warned["balance"]) < 6_000 * ETHER  # two payments, and the gas they cost
    assert sum(each["amount"] for each in recovered["top_ups"]) == 18_000 * ETHER
