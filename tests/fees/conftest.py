from collections.abc import AsyncIterator, Iterator

import pytest

from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeOptions
from tests.node.process import GANACHE, HARDHAT, running
from tests.support.fee_chain import GANACHE_KEY, HARDHAT_KEY, Chain


@pytest.fixture(scope="session")
def hardhat() -> Iterator[Chain]:
    with running(HARDHAT) as url:
        chain = Chain(url, HARDHAT_KEY)
        yield chain
        chain.close()


@pytest.fixture(scope="session")
def ganache() -> Iterator[Chain]:
    with running(GANACHE) as url:
        chain = Chain(url, GANACHE_KEY)
        yield chain
        chain.close()


@pytest.fixture
async def estimator() -> AsyncIterator[Estimator]:
    """Keeps nothing, so that a test sees the node as it is now."""
    estimator = Estimator(FeeOptions(cache_age=0.0, deadline=60.0, try_timeout=30.0))
    yield estimator
    await estimator.close()
