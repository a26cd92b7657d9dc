"""The metrics of nodes, by host: added up over pools and workers, bounded, and without any part of a key."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relaydeck.http.metric_counts import Metrics
from relaydeck.log import Field, Log
from relaydeck.networks.evm.errors import NodesUnreachable
from relaydeck.networks.evm.node import Fault
from relaydeck.networks.evm.node_figures import MOST_HOSTS, HostFigures, NodeFigures, read_figures, write_figures
from relaydeck.networks.evm.options import PoolRules
from relaydeck.networks.evm.pool import NodePool
from relaydeck.worker.reports import DisputeLog, node_metrics
from tests.networks.test_pool import GAS, QUICK, Clock, pool_over
from tests.support.fault_node import FaultNode, fault_nodes


def shown(folder: Path, figures: NodeFigures) -> list[str]:
    text = Metrics(folder / "metrics").exposition(node_metrics(figures))
    return [line for line in text.splitlines() if line.startswith("relaydeck_node_")]


def up_and_lag(pool: NodePool, node: FaultNode) -> tuple[bool, int | None]:
    figures = pool.figures().hosts[f"127.0.0.1:{node.port}"]
    return figures.up, figures.lag


async def test_a_pool_shows_its_hosts_and_no_key(tmp_path: Path) -> None:
    async with fault_nodes("healthy", "healthy", "dead") as nodes, pool_over(nodes, clock=Clock()) as pool:
        nodes[1].block = 60
        pool.rules = PoolRules(quorum=1)
        await pool.read(lambda _: ())
        found = pool.figures()
    hosts = [f"127.0.0.1:{node.port}" for node in nodes]
    assert {host: (each.up, each.lag, each.errors) for host, each in found.hosts.items()} == {
        hosts[0]: (True, 0, 0),
        hosts[1]: (True, 40, 0),
        hosts[2]: (False, None, 1),
    }
    lines = shown(tmp_path, found)
    assert f'relaydeck_node_up{{host="{hosts[0]}"}} 1' in lines
    assert f'relaydeck_node_lag_blocks{{host="{hosts[1]}"}} 40' in lines
    assert f'relaydeck_node_errors_total{{host="{hosts[2]}"}} 1' in lines
    assert [line.split()[0] for line in lines if hosts[2] in line] == [
        f'relaydeck_node_up{{host="{hosts[2]}"}}',
        f'relaydeck_node_errors_total{{host="{hosts[2]}"}}',
        f'relaydeck_node_outvoted_total{{host="{hosts[2]}"}}',
    ]
    assert "relaydeck_node_disagreements_total 0" in lines
    assert not any("secret" in line for line in lines)


async def test_after_an_outage_the_lag_is_unknown_until_the_next_comparison() -> None:
    clock = Clock()
    async with fault_nodes("healthy") as (node,), pool_over([node], clock=clock) as pool:
        await pool.read(lambda _: ())
        assert up_and_lag(pool, node) == (True, 0)
        node.mood = "http_429"
        with pytest.raises(NodesUnreachable):
            await pool.ask(GAS)
        assert up_and_lag(pool, node) == (False, None)
        node.mood = "healthy"
        clock.time += QUICK.pause_max
        await pool.ask(GAS)  # probes it
        assert up_and_lag(pool, node) == (True, None)
        await pool.read(lambda _: ())
        assert up_and_lag(pool, node) == (True, 0)


@pytest.mark.parametrize(
    ("first", "second"),
    [(HostFigures(), HostFigures(lag=3, seconds=0.25)), (HostFigures(lag=3, seconds=0.25), HostFigures())],
)
def test_a_known_value_and_an_unknown_one_add_up_to_the_known_one(first: HostFigures, second: HostFigures) -> None:
    total = msgspec.structs.replace(first)
    total.add(second)
    assert (total.lag, total.seconds) == (3, 0.25)


def test_the_figures_of_all_workers_are_added_up(tmp_path: Path) -> None:
    earlier, later = Fault("timed out", 1_900_000_000.25), Fault("refused the connection", 1_900_000_007.5)
    one = NodeFigures({"a.example": HostFigures(False, 3, 0.25, 2, later)}, 1)
    two = NodeFigures({"a.example": HostFigures(True, 1, 0.5, 5, earlier), "b.example": HostFigures(True)}, 2)
    write_figures(tmp_path, one)
    (tmp_path / f"nodes-{os.getpid()}").rename(tmp_path / "nodes-1")
    write_figures(tmp_path, two)
    expected = {"a.example": HostFigures(True, 3, 0.5, 7, later), "b.example": HostFigures(True)}
    assert read_figures(tmp_path) == NodeFigures(expected, 3)


def test_the_file_of_a_worker_that_ended_is_removed(tmp_path: Path) -> None:
    write_figures(tmp_path, NodeFigures({"a.example": HostFigures(True)}))
    (left,) = tmp_path.iterdir()
    os.utime(left, (0, 0))
    assert read_figures(tmp_path) == NodeFigures({})
    assert not left.exists()


def test_a_damaged_file_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "nodes-7").write_bytes(b"{")
    assert read_figures(tmp_path) == NodeFigures({})


def test_the_number_of_hosts_is_bounded() -> None:
    found = NodeFigures({})
    for number in range(MOST_HOSTS + 50):
        found.add_host(f"node-{number}.example", HostFigures(True))
    found.add_host("node-0.example", HostFigures(errors=3))
    assert len(found.hosts) == MOST_HOSTS
    assert found.hosts["node-0.example"].errors == 3


class Lines(Log):
    """Keeps what it would write."""

    def __init__(self) -> None:
        super().__init__(as_json=True)
        self.written: list[tuple[str, str, dict[str, Any]]] = []

    def event(self, level: str, event: str, **fields: Field) -> None:
        self.written.append((level, event, fields))


def test_a_disagreement_is_logged_when_it_begins_and_when_it_ends() -> None:
    log, clock = Lines(), Clock()
    disputes = DisputeLog(log, clock)
    for _ in range(100):  # of one minute
        disputes.update({1: "http://a.example 5 Wei, http://b.example 900 Wei"})
        disputes.update({})
    clock.time += 60
    disputes.update({})
    clock.time += 60
    disputes.update({})
    fields = {"chain_id": 1, "answers": "http://a.example 5 Wei, http://b.example 900 Wei"}
    assert log.written == [
        ("warning", "the nodes of a network disagree", fields),
        ("info", "the nodes of a network agree again", {"chain_id": 1}),
    ]
