"""The public interface of the package: cheap to import, it loads the engine for the first estimate."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from relaydeck.fees.errors import InternalFailure, RpcFailure
from relaydeck.fees.model import FeeEstimate, FeeEstimateParams, Trace
from relaydeck.fees.options import FeeOptions
from relaydeck.networks.model import FeeToken, Network, RpcUrl
from relaydeck.relayers.model import Relayer

if TYPE_CHECKING:
    from relaydeck.fees.engine import Engine
    from relaydeck.fees.rates import Rate
    from relaydeck.networks.evm.node_figures import NodeFigures
    from relaydeck.networks.evm.pool import NodePool


class Estimator:
    """One per event loop, long-lived: it keeps connections and the values that estimates share."""

    def __init__(
        self,
        options: FeeOptions,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        random: random.Random | None = None,
    ) -> None:
        self._options = options
        self._now = now
        self._monotonic = monotonic
        self._random = random
        self._engine: Engine | None = None

    async def estimate(
        self, relayer: Relayer, network: Network, params: FeeEstimateParams, trace: Trace | None = None
    ) -> FeeEstimate:
        """Raises `RpcFailure` and nothing else."""
        try:
            engine = self._engine or await self._load()
            return await engine.estimate(relayer, network, params, trace)
        except RpcFailure:
            raise
        except Exception as error:
            # The text of an unexpected error may quote a URL, so it is only in the cause.
            raise InternalFailure(f"an unexpected {type(error).__name__}") from error

    async def rate(self, network: Network, token: FeeToken) -> "Rate":
        """What one native coin is worth in the token, as an estimate would use it now. Raises `RpcFailure`."""
        engine = self._engine or await self._load()
        return await engine.rate(network, token)

    async def pool(self, urls: tuple[RpcUrl, ...], chain_id: int) -> "NodePool":
        """The node pool that estimates over these URLs use; the monitor reads from it, too."""
        engine = self._engine or await self._load()
        return engine.pool(urls, chain_id)

    async def warm(self, networks: Sequence[Network]) -> None:
        """Load the code and connect to the nodes, so that the first estimate takes no longer than the next."""
        engine = self._engine or await self._load()
        await engine.warm(networks)

    def node_figures(self) -> "NodeFigures | None":
        """Of the nodes that this process uses; None while it uses none."""
        return self._engine.node_figures() if self._engine else None

    async def _load(self) -> "Engine":
        # In a thread: the import takes most of a second, and the event loop has requests to serve.
        module = await asyncio.to_thread(import_module, "relaydeck.fees.engine")
        if self._engine is None:  # another estimate may have come first
            self._engine = module.Engine(self._options, self._now, self._monotonic, self._random)
        engine: Engine = self._engine
        return engine

    async def close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()
