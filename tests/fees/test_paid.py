"""Estimates against what was paid, on real nodes. `make paid` runs the long form and writes the table."""

from collections.abc import AsyncIterator, Iterator

import pytest
from eth_utils.address import to_checksum_address

from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeOptions
from tests.proofs.paid.kinds import DEADLINES, PERIOD
from tests.proofs.paid.suite import NODES, Suite
from tests.proofs.paid.table import PAGE, REGION, close_share, faults
from tests.support.accounts import account
from tests.support.provenance import region

# What `eth_estimateGas` gets wrong, and a simulation does not.
HARD = (
    "clear 10 slots (refund)", "reads the gas price", "work by the gas price", "work once a block",
    "reads the base fee", "burns a third of its limit of 300,000", "token transfer, unsigned", "creation of a token",
    "1 authorization",
)  # fmt: skip


@pytest.fixture(scope="module")
def geth_suite() -> Iterator[Suite]:
    chain, model = NODES["geth"]
    with chain(0) as running:
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
@pytest.mark.parallel
@pytest.mark.parametrize("node", NODES)
async def test_every_kind_and_some_at_random(node: str) -> None:
    chain, model = NODES[node]
    with chain(0) as running:
        suite = Suite(running, model, node, seed=7)
        found = [await suite.kind(kind) for kind in suite.kinds()]
        found += [await suite.random(number) for number in range(25)]
        await suite.estimator.close()
    assert len(found) >= 57 + 25
    assert faults(found) == []
    assert close_share(found) >= (80 if node == "Hardhat" else 98)


@pytest.mark.prove
@pytest.mark.parallel
async def test_a_deadline_a_block_ahead_is_no_reason_to_refuse() -> None:
    chain, model = NODES["geth"]
    with chain(PERIOD) as running:
        suite = Suite(running, model, "geth")
        found = [await suite.kind(kind) for kind in DEADLINES]
        await suite.estimator.close()
    assert faults(found) == []
    assert sum(each.succeeded for each in found) >= 2  # a block may be late for the first of them
    assert close_share(found) == 100


def test_the_page_shows_that_the_promise_was_kept() -> None:
    """60 kinds and 500 random ones on each node, 95 % within 2 %, on geth all; nothing missing, nothing too low."""
    table = region(PAGE.read_text(), REGION).splitlines()
    sums = {cells[0]: cells[1:] for line in table[4:9] if (cells := line.strip("| ").split(" | "))}
    assert list(sums) == [*NODES, "all"]
    for node in NODES:
        assert int(sums[node][1]) >= 560
    sent, _, close, lowest, _, missing = sums["all"]
    assert int(sent) >= 4 * 560 and missing == "0"
    assert sums["geth"][2] == "100.0 %"
    assert float(close.removesuffix(" %")) >= 95
    assert float(lowest.removesuffix(" %")) >= -2
    assert len([line for line in table if line.startswith("| deadline ") and " no estimate " not in line]) == 3
