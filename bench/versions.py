"""Compares this source with an earlier commit: `python -m bench.versions COMMIT`.

Each version fills a home with its own commands and serves it. The two take turns of a tenth of a second, as the sides
of every comparison do. A ratio above 1 means that this source needs more processor time than the commit.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench import tools
from bench.comparing import Comparison, Side, compare
from bench.creates import create_request
from bench.estimates import SENDER, transaction
from bench.homes import Home
from bench.load import Request, choose
from bench.processes import ROOT, Server, free_port
from bench.run import RELAYERS, SIGNERS, get
from bench.service import SETTINGS, await_quiet, first_answer
from bench.updates import update_request
from tests.node.process import HARDHAT, running

_CHAIN_ID = 31337
_FILE = f"""\
[networks.local]
network_type = "evm"
chain_id = {_CHAIN_ID}
native_symbol = "ETH"
rpc_urls = [{{ url = "NODE" }}]

[[signers]]
id = "ops"
type = "plain"
config = {{ key = {{ env = "BENCH_KEY" }} }}

[[notifications]]
id = "pager"
type = "webhook"
url = "https://hooks.example.com/"
"""
_RELAYER = """
[[relayers]]
id = "r{number}"
name = "Relayer {number}"
network = "local"
network_type = "evm"
signer_id = "ops"
"""
_KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"  # the first account of Hardhat: SENDER
assert SENDER == "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"


class Version(NamedTuple):
    name: str
    source: Path
    folder: Path  # of its home

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RELAYDECK_")}
        own = {"PYTHONPATH": str(self.source / "src"), "RELAYDECK_HOME": str(self.folder), "BENCH_KEY": _KEY}
        return kept | SETTINGS | own

    def command(self, *arguments: str, given: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-m", "relaydeck", *arguments],
            cwd=self.source,
            env=self.environment(),
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{self.name}: relaydeck {arguments[0]} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def fill(self, node: str) -> Home:
        relayers = "".join(_RELAYER.format(number=number) for number in range(10))
        self.command("apply", "-", "--yes", given=_FILE.replace("NODE", node) + relayers)
        token = self.command("token", "create", "bench").split()[-1]
        return Home(self.folder, token, 10)

    def serve(self) -> Server:
        port = free_port()
        command = [sys.executable, "-m", "relaydeck", "serve", "--port", str(port), "--workers", "1"]
        return Server(port, command, self.folder.with_suffix(".log"), self.environment())


def _estimate(home: Home) -> Request:
    headers = {"Authorization": f"Bearer {home.token}", "Content-Type": "application/json"}
    params = f'{{"fee_token": "ETH", "network": "local", "transaction": "{transaction(1, _CHAIN_ID)}"}}'
    body = f'{{"jsonrpc": "2.0", "id": 1, "method": "feeEstimate", "params": {params}}}'
    return Request("POST", "/api/v1/relayers/r0/rpc", headers, body)


_REQUESTS: dict[str, Callable[[Home], Request]] = {
    "list-signers": lambda home: get(home, SIGNERS),
    "list-relayers": lambda home: get(home, RELAYERS),
    "create-signer": create_request,
    "update-notification": update_request,
    "fee estimate": _estimate,
}


def _extracted(commit: str, folder: Path) -> Path:
    """The source of a commit. Raises CalledProcessError when there is no such commit."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def _compared(names: Sequence[str], commit: str, folder: Path, rounds: int) -> dict[str, Comparison]:
    load, found = choose(tools.find("wrk"), folder), {}
    with running(HARDHAT) as node, ExitStack() as stack:
        versions = [
            Version("this", ROOT, folder / "this"),
            Version(commit, _extracted(commit, folder / "source"), folder / "that"),
        ]
        homes = [version.fill(node) for version in versions]
        servers = [stack.enter_context(version.serve()) for version in versions]
        for server, home in zip(servers, homes, strict=True):
            first_answer(server, get(home, SIGNERS))
            await_quiet(server)
        for name in names:
            sides = [
                Side(version.name, server, _REQUESTS[name](home))
                for version, server, home in zip(versions, servers, homes, strict=True)
            ]
            found[name] = compare(load, sides, rounds=rounds, seconds=1, advance=lambda: None)
    return found


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.versions", description=__doc__.partition("\n")[0])
    parser.add_argument("commit")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", nargs="*", choices=list(_REQUESTS), default=list(_REQUESTS))
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        found = _compared(given.only, given.commit, Path(folder), given.rounds)
    print(f"CPU and requests per second of this source, as a share of {given.commit}: median (quartiles)")
    for name, comparison in found.items():
        cpu, rate = comparison.cpu("this", given.commit), comparison.throughput("this", given.commit)
        shown = [f"{each.middle:.2f} ({each.low:.2f}–{each.high:.2f})" for each in (cpu, rate)]
        print(f"{name:20} CPU {shown[0]:20} rate {shown[1]}")


if __name__ == "__main__":
    _main()
