"""Which prices a pool believes, from what it knows about its chain."""

import pytest

from relaydeck.networks.evm.figures import Figures
from relaydeck.networks.evm.landmark import Landmark
from relaydeck.networks.evm.node import Node
from relaydeck.networks.evm.options import PoolOptions, PoolRules
from relaydeck.networks.evm.view import ChainView
from relaydeck.networks.model import RpcUrl

GWEI = 10**9
LIAR, HONEST, OTHER = (Node(RpcUrl(f"http://127.0.0.1:{port}"), PoolOptions()) for port in (1, 2, 3))
FAR = "answered a price far from that of the other nodes"


def priced(price: int) -> Figures:
    return Figures(price=price, price_from="eth_gasPrice")


@pytest.fixture
def view() -> ChainView:
    """A pool that once believed a price of 1,000 gwei."""
    view = ChainView(PoolRules(), lambda: 0.0)
    view.accept(LIAR, priced(1000 * GWEI))
    return view


def problem(view: ChainView, price: int) -> str:
    return view.problem(priced(price), HONEST, [HONEST, OTHER])


def test_without_a_block_a_price_far_from_the_others_is_not_believed(view: ChainView) -> None:
    assert problem(view, 2 * GWEI) == FAR


def test_a_price_that_the_newest_block_explains_is_believed(view: ChainView) -> None:
    view.agree_on(Landmark(number=7, base_fee=GWEI, gas_limit=30_000_000))
    assert problem(view, 2 * GWEI) == ""


def test_one_that_it_does_not_explain_is_compared_with_the_others(view: ChainView) -> None:
    view.agree_on(Landmark(number=7, base_fee=GWEI, gas_limit=30_000_000))
    assert problem(view, 11 * GWEI) == FAR


def history(block: int, base_fee: int) -> Figures:
    return Figures(block=block, base_fee=base_fee, price=base_fee, price_from="eth_feeHistory")


@pytest.fixture
def agreed() -> ChainView:
    view = ChainView(PoolRules(), lambda: 0.0)
    view.agree_on(Landmark(number=100, base_fee=GWEI, gas_limit=30_000_000))
    return view


def test_a_base_fee_is_compared_at_any_distance(agreed: ChainView) -> None:
    impossible = "answered a price that cannot follow the newest block's base fee"
    assert agreed.problem(history(109, 100 * GWEI), LIAR, [LIAR, HONEST]) == impossible
    assert agreed.problem(history(109, 2 * GWEI), LIAR, [LIAR, HONEST]) == ""


def test_a_block_that_one_node_claims_does_not_make_the_others_old(agreed: ChainView) -> None:
    assert agreed.problem(history(1000, GWEI), LIAR, [LIAR, HONEST]) == ""
    assert agreed.problem(history(100, GWEI), HONEST, [LIAR, HONEST]) == ""
    assert agreed.is_outdated  # so the newest blocks are compared soon
    behind = "answered 4 blocks behind the other nodes"
    assert agreed.problem(history(99, GWEI), OTHER, [LIAR, HONEST, OTHER]) == behind
