"""What is known about chains, and what a network declares itself."""

import pytest
from msgspec.structs import replace

from relaydeck.networks.chains import UNKNOWN, ChainFacts, facts_of
from tests.support.fee_scene import network


@pytest.mark.parametrize(
    ("facts", "seconds"), [(facts_of(1), 60.0), (facts_of(8453), 30.0), (facts_of(31337), None), (ChainFacts(), None)]
)
def test_the_age_at_which_a_block_is_not_current(facts: ChainFacts, seconds: float | None) -> None:
    assert facts.stale_seconds == seconds


def test_nothing_is_known_about_a_chain_that_is_not_listed() -> None:
    assert network(chain_id=31337).facts == UNKNOWN


def test_a_limit_that_the_network_declares_counts() -> None:
    assert network(chain_id=1).facts.gas_limit_cap == 16_777_216
    assert replace(network(chain_id=1), gas_limit_cap=99).facts == replace(facts_of(1), gas_limit_cap=99)
