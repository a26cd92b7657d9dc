"""Estimates against what was paid, on real nodes. `make paid` runs the long form and writes the table."""

from collections.abc import AsyncIterator, Iterator

import pytest
from eth_utils.address import to_checksum_address

from relaydeck.fees import Estimator, FeeOptions
from tests.accounts import account
from tests.fees.paid.suite import NODES, Suite
from tests.fees.paid.table import PAGE, REGION, close_share, faults
from tests.provenance import region

# What `eth_estimateGas` gets wrong, and a simulation does not.
HARD = (
    "clear 10 slots (refund)", "reads the gas price", "work by the gas price", "work once a block",
    "reads the base fee", "burns a third of its limit of 300,000", "token transfer, unsigned", "creation of a token",
    "1 authorization",
)  # fmt: skip


@pytest.fixture(scope="module")
def geth_suite() -> Iterator[Suite]:
    chain, model = NODES["geth"]
    with chain() as running:
        yield Suite(running, model, "geth")


@pytest.fixture
async def geth(geth_suite: Suite) -> AsyncIterator[Suite]:
    """An estimator belongs to one event loop, so each test has its own."""
    geth_suite.estimator = Estimator(FeeOptions(cache_age=0.0, deadline=60.0, try_timeout=30.0))
    yield geth_suite
    await geth_suite.estimator.close()


@pytest.mark.parametrize("kind", HARD)
async def test_what_geth_charges_is_what_was_estimated(geth: Suite, kind: str) -> None:
    found = await geth.kind(kind)
    assert (found.error, found.estimated) == ("", found.paid)
    assert found.method == "eth_simulateV1"


async def test_a_sender_without_funds_gets_an_estimate(geth: Suite) -> None:
    poor = account("0x" + "77" * 32)
    fields = {
        "chainId": geth.chain.chain_id,
        "nonce": 0,
        "gas": 60_000,
        "gasPrice": 10**10,
        "to": to_checksum_address(geth.stage.kinds),
    }
    raw = poor.sign_transaction(fields | {"value": 10**18}).raw_transaction.to_0x_hex()
    estimated, method, error = await geth.estimated(raw)
    assert (error, method) == ("", "eth_simulateV1")
    assert estimated is not None and estimated > 21_000 * 10**10


@pytest.mark.prove
@pytest.mark.parametrize("node", NODES)
async def test_every_kind_and_some_at_random(node: str) -> None:
    chain, model = NODES[node]
    with chain() as running:
        suite = Suite(running, model, node, seed=7)
        found = [await suite.kind(kind) for kind in suite.kinds()]
        found += [await suite.random(number) for number in range(25)]
        await suite.estimator.close()
    assert len(found) >= 49 + 25
    assert faults(found) == []
    assert close_share(found) >= (80 if node == "Hardhat" else 98)


def test_the_page_shows_that_the_promise_was_kept() -> None:
    """At least 49 kinds and 500 random ones on each node, 95 % of all within 2 %, nothing missing, nothing too low."""
    table = region(PAGE.read_text(), REGION).splitlines()
    sums = {cells[0]: cells[1:] for line in table[4:8] if (cells := line.strip("| ").split(" | "))}
    assert list(sums) == [*NODES, "all"]
    for node in NODES:
        assert int(sums[node][0]) >= 549
    sent, close, lowest, _, missing = sums["all"]
    assert int(sent) >= 3 * 549 and missing == "0"
    assert float(close.removesuffix(" %")) >= 95
    assert float(lowest.removesuffix(" %")) >= -2
