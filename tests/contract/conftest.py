"""One served home with a known content, for every contract test that only asks."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relaydeck.networks.model import RpcUrl
from relaydeck.relayers.model import DisabledReason, Policies
from tests.support.places import ENGINES
from tests.support.running import Running
from tests.support.seeding import ADDRESS, fill, issue, relayer, relayer_shown

LARGE = 2**256 - 1  # Wei: more than any machine integer holds

FULL = relayer(
    "full",
    notification_id="pager",
    paused=True,
    system_disabled=True,
    disabled_reason=DisabledReason("no node answered", "NonceSyncFailed"),
    custom_rpc_urls=(RpcUrl("http://127.0.0.1:9/a?key=1", 3), RpcUrl("http://127.0.0.1:9/b", 1)),
    policies=Policies(False, False, LARGE, LARGE - 1, True, (ADDRESS,)),
)
FULL_SHOWN = relayer_shown(
    "full",
    notification_id="pager",
    paused=True,
    system_disabled=True,
    disabled_reason={"details": "no node answered", "type": "NonceSyncFailed"},
    custom_rpc_urls=[
        {"url": "http://127.0.0.1:9/a?key=1", "weight": 3},
        {"url": "http://127.0.0.1:9/b", "weight": 1},
    ],
    policies={
        "eip1559_pricing": False,
        "gas_limit_estimation": False,
        "gas_price_cap": LARGE,
        "min_balance": LARGE - 1,
        "private_transactions": True,
        "whitelist_receivers": [ADDRESS],
    },
)
NAMES = [f"r{number:02}" for number in range(11)]
RELAYERS_SHOWN = [FULL_SHOWN, *(relayer_shown(name) for name in NAMES)]


def served(home: Path) -> Running:
    """Twelve relayers, the first with every field; notifications `pager` (with a key), `plain` (without)."""
    fill(
        home,
        notifications={"pager": "a key", "plain": None},
        relayers=[FULL, *(relayer(name) for name in NAMES)],
    )
    return Running(home, token=issue(home), rate_limit_per_second="0")


@pytest.fixture(scope="session", params=ENGINES)
def contract(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, put: Callable[[Path, str], Path]
) -> Iterator[Running]:
    with served(put(tmp_path_factory.mktemp("contract") / "home", request.param)) as running:
        yield running
