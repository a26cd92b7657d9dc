"""A command on a server loads nothing that only a home needs."""

import subprocess
import sys
from pathlib import Path

from tests.running import Running, clean_environment, make_token

_PRINT_MODULES = (
    "import sys; from relaydeck.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
)
# Of the server's packages, the declarations that options are derived from.
_LIGHT = {"relaydeck.admin", "relaydeck.admin.filters", "relaydeck.credentials", "relaydeck.credentials.kinds"}
_SERVER = ("relaydeck.admin", "relaydeck.contract", "relaydeck.provisioning", "relaydeck.signers", "relaydeck.relayers")
_MORE = ("relaydeck.notifications", "relaydeck.fees", "relaydeck.credentials", "relaydeck.store", "relaydeck.networks")
_HEAVY = ("relaydeck.http", "relaydeck.app", "relaydeck.cli.local", "cryptography", "granian", "aiohttp", "sqlite3")


def test_a_list_from_a_server_loads_no_package_of_the_server(service: Running, tmp_path: Path) -> None:
    token = make_token(service.home, "light", "--kind", "admin")
    environment = clean_environment(tmp_path, url=f"http://127.0.0.1:{service.port}", token=token)
    command = [sys.executable, "-c", _PRINT_MODULES, "relayer", "list"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    loaded = done.stderr.split()
    packages = {*_SERVER, *_MORE, *_HEAVY}
    found = {each for each in loaded if each in packages or any(each.startswith(f"{name}.") for name in packages)}
    assert found <= _LIGHT
