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
