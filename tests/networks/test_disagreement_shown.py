"""A service with two honest nodes and one that lies, each a stand-in: who said what is shown wherever nodes are."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any, NamedTuple

import pytest

from tests.console.conftest import Operator, plain
from tests.support.fault_node import fault_nodes
from tests.support.running import Running, eventually, run_command
from tests.support.seeding import issue

TRANSFER = "0x02f0827a6980843b9aca0084773594008252089470997970c51812dc3a010c7d01b50e0d17dc79c887038d7ea4c6800080c0"
HOME = """
[networks.local]
network_type = "evm"
chain_id = 31337
native_symbol = "ETH"
rpc_urls = [{urls}]
quorum = 2

[[signers]]
id = "ops"
type = "plain"
config = {{ key = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80" }}

[[relayers]]
id = "local-1"
name = "Local one"
network = "local"
network_type = "evm"
signer_id = "ops"
"""


@contextmanager
def nodes(*gas: int) -> Iterator[list[str]]:
    """The URLs of nodes that answer so, in a thread of their own."""
    urls: Queue[list[str]] = Queue()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def answer() -> None:
        async with fault_nodes(*["healthy"] * len(gas)) as started:
            for node, amount in zip(started, gas, strict=True):
                node.answers |= {"eth_estimateGas": hex(amount), "eth_getBalance": "0x1"}
            urls.put([node.url for node in started])
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(answer(),))
    thread.start()
    yield urls.get()
    loop.call_soon_threadsafe(over.set)
    thread.join()
    loop.close()


class Scene(NamedTuple):
    hosts: list[str]  # of the nodes; the first one lies
    running: Running
    answer: Any  # to the request for an estimate

    def command(self, *words: str) -> str:
        return run_command(self.running.home, *words).stdout

    def page(self, path: str) -> str:
        return plain(Operator(self.running.port).sign_in(self.running.token).get(path))

    def fault(self, place: int) -> str:
        """What `doctor` says about a host."""
        subject = f"nodes on {self.hosts[place]}: "
        return next((each for each in self.command("doctor").splitlines() if subject in each), "")


@contextmanager
def served(tmp_path_factory: pytest.TempPathFactory, *gas: int) -> Iterator[Scene]:
    home = tmp_path_factory.mktemp("disagreement") / "home"
    with nodes(*gas) as urls:
        listed = ", ".join(f'{{ url = "{url}" }}' for url in urls)
        done = run_command(home, "apply", "-", stdin=HOME.format(urls=listed))
        assert done.returncode == 0, done.stderr
        with Running(home, token=issue(home, "root", "admin")) as running:
            params = {"fee_token": "ETH", "network": "local", "transaction": TRANSFER}
            body = {"jsonrpc": "2.0", "id": 7, "method": "feeEstimate", "params": params}
            answers = [running.ask("POST", "/api/v1/relayers/local-1/rpc", body).json for _ in range(3)]
            hosts = [url.split("/")[2] for url in urls]
            scene = Scene(hosts, running, answers[0])
            eventually(lambda: bool(scene.fault(0)))  # the workers write what they know every two seconds
            yield scene


@pytest.fixture(scope="module")
def outvoted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with served(tmp_path_factory, 30_000, 21_000, 21_000) as scene:
        yield scene


@pytest.fixture(scope="module")
def undecided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with served(tmp_path_factory, 30_000, 21_000) as scene:
        yield scene


LIE = "answered 30000 about the gas of the transaction; the others answered 21000"


def test_the_estimate_itself(outvoted: Scene, undecided: Scene) -> None:
    assert "result" in outvoted.answer
    error, (one, other) = undecided.answer["error"], undecided.hosts
    begin, _, said = error.pop("description").partition(": ")
    assert error == {"code": -32005, "message": "Nodes disagree"}
    assert begin == "the nodes disagree about the gas of the transaction"
    assert set(said.split("; ")) == {f"http://{one} 30000", f"http://{other} 21000"}


def test_doctor(outvoted: Scene, undecided: Scene) -> None:
    line = outvoted.fault(0)
    assert line.startswith(f"warn  nodes on {outvoted.hosts[0]}: most nodes contradicted it ")
    assert f"; the last fault the service saw: {LIE}, at 20" in line
    assert outvoted.fault(1) == outvoted.fault(2) == ""
    one, other = undecided.hosts
    (line,) = (each for each in undecided.command("doctor").splitlines() if "nodes of the chain 31337: " in each)
    assert line.startswith(
        "warn  nodes of the chain 31337: they answered differently, and have not agreed since; the gas"
    )
    theirs = f"answered 30000 about the gas of the transaction; http://{other} answered 21000"
    assert undecided.fault(0).startswith(f"ok    nodes on {one}: the last fault the service saw: {theirs}, at 20")
    theirs = f"answered 21000 about the gas of the transaction; http://{one} answered 30000"
    assert undecided.fault(1).startswith(f"ok    nodes on {other}: the last fault the service saw: {theirs}, at 20")


def test_why(outvoted: Scene, undecided: Scene) -> None:
    lines = outvoted.command("relayer", "why", "local-1").splitlines()
    assert [LIE in each for each in lines if "│ http://" in each] == [True, False, False]
    lines = undecided.command("relayer", "why", "local-1").splitlines()
    said = [" about the gas of the transaction; http://" in each for each in lines if "│ http://" in each]
    assert said == [True, True]


@pytest.mark.parametrize("path", ["/nodes", "/networks/local/now", "/relayers/local-1/why"])
def test_the_console(outvoted: Scene, undecided: Scene, path: str) -> None:
    assert f"last fault: {LIE}, " in outvoted.page(path)
    assert outvoted.page(path).count("last fault: ") == 1
    assert undecided.page(path).count("last fault: answered ") == 2


def test_the_metrics(outvoted: Scene, undecided: Scene) -> None:
    def counted(scene: Scene, name: str) -> dict[str, int]:
        text = scene.running.ask("GET", "/metrics").body.decode()
        lines = [each.rpartition(" ") for each in text.splitlines() if each.startswith(f"relaydeck_{name}")]
        return {label: int(value) for label, _, value in lines}

    found = counted(outvoted, "node_outvoted_total")
    assert [found[f'relaydeck_node_outvoted_total{{host="{host}"}}'] > 0 for host in outvoted.hosts] == [
        True,
        False,
        False,
    ]
    assert counted(outvoted, "node_disagreements_total")["relaydeck_node_disagreements_total"] > 0
    assert counted(undecided, "node_disagreements_total")["relaydeck_node_disagreements_total"] > 0
    assert set(counted(undecided, "node_outvoted_total").values()) == {0}


def test_the_log(outvoted: Scene, undecided: Scene) -> None:
    for scene in (outvoted, undecided):
        (line,) = (each for each in scene.running.log.splitlines() if "the nodes of a network disagree" in each)
        assert '"the gas of the transaction: http://' in line
        assert f"http://{scene.hosts[0]} 30000" in line
