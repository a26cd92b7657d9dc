"""The node of the demo: Hardhat where Node.js and its package are installed, otherwise a minimal one of our own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from relaydeck.cli.demo.loopback import HOST, answers, free_port, serving
from relaydeck.cli.demo.minimal_node import MinimalNode
from relaydeck.cli.demo.process import child, wait_until

_SCRIPT = "hardhat/internal/cli/bootstrap.js"
_CHAIN_ID = '{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}'
_CONFIG = "module.exports = { networks: { hardhat: {} } };\n"


class Node(NamedTuple):
    kind: str
    url: str
    remark: str


@contextmanager
def development_node(folder: Path) -> Iterator[Node]:
    program = shutil.which("node")
    script = _hardhat_script(program) if program else ""
    if program and script:
        with _hardhat([program, script], folder) as url:
            yield Node("hardhat", url, "a Hardhat development node")
        return
    missing = "Hardhat 2 is not installed in this folder" if program else "Node.js is not installed"
    with serving(MinimalNode) as url:
        yield Node(
            "minimal",
            url,
            f"a minimal node that comes with Relaydeck: it answers estimates with fixed prices and is no blockchain"
            f" ({missing})",
        )


def _hardhat_script(program: str) -> str:
    """The script of the Hardhat that a project in the current folder would use; nothing if there is none."""
    code = f"process.stdout.write(require.resolve('{_SCRIPT}', {{paths: [process.cwd()]}}))"
    found = subprocess.run([program, "-e", code], capture_output=True, text=True, check=False)  # noqa: S603
    return found.stdout if found.returncode == 0 else ""


@contextmanager
def _hardhat(command: list[str], folder: Path) -> Iterator[str]:
    """A fresh chain, whatever the project in the current folder configures."""
    config, log, port = folder / "hardhat.config.js", folder / "node.log", free_port()
    config.write_text(_CONFIG, "utf-8")
    options = ["--config", str(config), "node", "--hostname", HOST, "--port", str(port)]
    environment = os.environ | {"HARDHAT_DISABLE_TELEMETRY_PROMPT": "true"}
    with child([*command, *options], log, environment) as process:
        wait_until(lambda: answers(port, "POST", "/", _CHAIN_ID), process, "the development node", log)
        yield f"http://{HOST}:{port}"
