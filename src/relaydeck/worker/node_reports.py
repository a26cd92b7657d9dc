"""What a worker reports about its nodes: figures to a file, from which a scrape adds up those of all, and disputes."""

import asyncio
import time
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path

from relaydeck.fees.estimator import Estimator
from relaydeck.http.metrics import NODE_DISAGREEMENTS, NODE_ERRORS, NODE_LAG, NODE_LATENCY, NODE_UP, Figures
from relaydeck.log import Log
from relaydeck.networks.evm.figure_files import write_figures
from relaydeck.networks.evm.node_figures import HostFigures, NodeFigures

_REPORT_SECONDS = 2.0
_DISPUTE_SECONDS = 60.0


async def report_nodes(estimator: Estimator, folder: Path, log: Log) -> None:
    """Until cancelled."""
    disputes = DisputeLog(log)
    while True:
        await asyncio.sleep(_REPORT_SECONDS)
        if figures := estimator.node_figures():
            write_figures(folder, figures)
            disputes.update(figures.disputes)


class DisputeLog:
    """Logs that nodes disagree when it begins, and when it is over: not for each estimate, and not more than once a
    minute for nodes that change their minds."""

    def __init__(self, log: Log, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._monotonic = monotonic
        self._logged: dict[int, tuple[bool, float]] = {}  # by chain id: whether they disagree, and since when

    def update(self, disputes: Mapping[int, str]) -> None:
        now = self._monotonic()
        for chain_id in disputes.keys() | self._logged.keys():
            disputed, at = self._logged.get(chain_id, (False, -inf))
            if (chain_id in disputes) == disputed or now - at < _DISPUTE_SECONDS:
                continue
            self._logged[chain_id] = (not disputed, now)
            if disputed:
                self._log.event("info", "the nodes of a network agree again", chain_id=chain_id)
            else:
                self._log.event(
                    "warning",
                    "the nodes of a network disagree about the price of gas",
                    chain_id=chain_id,
                    prices=disputes[chain_id],
                )


def node_metrics(figures: NodeFigures) -> Figures:
    hosts: dict[tuple[str, ...], HostFigures] = {(host,): each for host, each in figures.hosts.items()}
    return {
        NODE_UP: {host: int(each.up) for host, each in hosts.items()},
        NODE_LAG: {host: each.lag for host, each in hosts.items() if each.lag is not None},
        NODE_LATENCY: {host: f"{each.seconds:.4f}" for host, each in hosts.items() if each.seconds is not None},
        NODE_ERRORS: {host: each.errors for host, each in hosts.items()},
        NODE_DISAGREEMENTS: figures.disagreements,
    }
