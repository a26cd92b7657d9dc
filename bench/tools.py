"""The tools the bench would like: wrk and nginx. Fetched where root allows it; else done without."""

import os
import shutil
import subprocess
from pathlib import Path

_PACKAGES = {"wrk": "wrk", "nginx": "nginx-light"}
_FETCH_SECONDS = 120
# Debian puts servers where a plain user's PATH does not look.
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def find(tool: str) -> str | None:
    """Where a tool is, after an attempt to install it; None when this machine will not have it."""
    return _which(tool) or (_which(tool) if _install(_PACKAGES[tool]) else None)


def _which(tool: str) -> str | None:
    return shutil.which(tool, path=_PATH)


def _install(package: str) -> bool:
    apt = _which("apt-get")
    if apt is None or os.geteuid() != 0:
        return False
    # Installing a server must not start it: policy-rc.d says so where it exists, and a container has no init.
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    update = [] if any(Path("/var/lib/apt/lists").glob("*Packages*")) else [[apt, "-qq", "update"]]
    commands = [*update, [apt, "-qq", "-y", "--no-install-recommends", "install", package]]
    return all(_runs(command, environment) for command in commands)


def _runs(command: list[str], environment: dict[str, str]) -> bool:
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_FETCH_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
