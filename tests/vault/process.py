"""Starts and stops a real HashiCorp Vault, in memory, on loopback."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx

PROGRAM = Path(sys.prefix) / "vault" / "server"


class Vault(NamedTuple):
    address: str
    root_token: str

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """As the operator of this Vault."""
        headers = {"X-Vault-Token": self.root_token}
        answer = _client().request(method, f"{self.address}/v1/{path}", headers=headers, json=body)
        answer.raise_for_status()
        return dict(answer.json()) if answer.content else {}


@cache
def _client() -> httpx.Client:
    """One for all calls: each new one loads the certificates of the system, which takes longer than a call."""
    return httpx.Client(timeout=60)


@contextmanager
def running() -> Iterator[Vault]:
    if not PROGRAM.exists():
        raise RuntimeError(f"the test Vault is not built: run tests/vault/install {PROGRAM}")
    with subprocess.Popen(
        [PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("the test Vault ended before it was ready")
            ready = json.loads(line)
            yield Vault(ready["address"], ready["token"])
        finally:
            process.terminate()
            process.wait(60)
