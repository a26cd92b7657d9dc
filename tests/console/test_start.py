"""A start pays nothing for the console."""

import subprocess
import sys

LOADED = """
import sys, relaydeck.app, relaydeck.cli.serve
print(sorted(name for name in sys.modules if name.split(".")[0] in ("jinja2", "segno") or "relaydeck.console" in name))
"""


def test_neither_the_console_nor_its_libraries_are_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
