"""The nginx of the proofs, which `make prove` sets up."""

import os
import sys
from pathlib import Path

NGINX = Path(sys.prefix) / "bin" / "nginx"
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def with_own_places(configuration: str, folder: Path) -> str:
    """The deployed configuration, with a folder for what nginx writes, in the foreground."""
    own = "".join(f"{name}_temp_path {folder}/{name};\n" for name in _TEMPORARY)
    # Started as root, its workers would become a user who may not enter our folder.
    user = "user root;\n" if os.geteuid() == 0 else ""
    text = configuration.replace("http {", "http {\n" + own).replace("/tmp/nginx.pid", f"{folder}/nginx.pid")
    return f"daemon off;\n{user}{text}"
