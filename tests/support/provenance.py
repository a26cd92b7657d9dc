"""Where a measured figure comes from: the day, the version and the machine; and the regions of pages that have them."""

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from relaydeck import __version__

ROOT = Path(__file__).parents[2]


class Provenance(NamedTuple):
    date: str
    version: str
    machine: str

    @property
    def short(self) -> str:
        """Where the machine is said elsewhere."""
        return f"{self.date}, {self.version}"

    def __str__(self) -> str:
        return f"{self.date}, version {self.version}, on {self.machine}"


def here_and_now() -> Provenance:
    return Provenance(f"{datetime.now(UTC):%Y-%m-%d}", version(), machine())


def version() -> str:
    """With the commit, if this is a clone, and a mark if the product's code differs from it."""
    try:
        commit, changed = _git("rev-parse", "--short=7", "HEAD"), _git("status", "--porcelain", "--", "src")
    except (OSError, subprocess.SubprocessError):
        return __version__
    return f"{__version__} ({commit}{'-dirty' if changed else ''})"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def machine() -> str:
    cores = len(os.sched_getaffinity(0))
    system = f"{platform.system()} {platform.release()}"
    return f"{_processor()}, {cores} cores, {system}, Python {platform.python_version()}"


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    return " ".join(found[1].split()) if found else platform.machine()


def region(page: str, name: str) -> str:
    """The text between the marks of a region. Raises ValueError when the page has no such region."""
    _, text, _ = _parts(page, name)
    return text


def with_region(page: str, name: str, text: str) -> str:
    before, _, after = _parts(page, name)
    return f"{before}{text}{after}"


def _parts(page: str, name: str) -> tuple[str, str, str]:
    found = re.fullmatch(rf"(.*<!-- {name}:[^\n]*-->\n)(.*)(<!-- /{name} -->.*)", page, re.DOTALL)
    if found is None:
        raise ValueError(f"the page has no region {name}")
    return found[1], found[2], found[3]
