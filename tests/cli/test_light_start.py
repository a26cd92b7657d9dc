"""A command on a server loads nothing that only a home needs."""

import subprocess
import sys
from pathlib import Path

from tests.support.running import Running, clean_environment, make_token

_PRINT_MODULES = (
    "import sys; from relaydeck.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
)
_HEAVY = ("relaydeck.admin", "relaydeck.worker", "relaydeck.cli.home_target", "granian", "sqlite3")


def test_a_list_from_a_server_loads_no_handler_and_no_database(service: Running, tmp_path: Path) -> None:
    token = make_token(service.home, "light", "--kind", "admin")
    environment = clean_environment(tmp_path, url=f"http://127.0.0.1:{service.port}", token=token)
    command = [sys.executable, "-c", _PRINT_MODULES, "relayer", "list"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    loaded = done.stderr.split()
    assert [each for each in loaded if each in _HEAVY or each.startswith(tuple(f"{name}." for name in _HEAVY))] == []
