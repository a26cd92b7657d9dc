"""`src/relaydeck/api/documents/`: both documents. The service renders their pages from them."""

from pathlib import Path
from typing import Any

import msgspec

from pages.openapi import admin, contract

FOLDER = Path(__file__).parents[2] / "src" / "relaydeck" / "api" / "documents"


def contents() -> dict[Path, str]:
    found: dict[Path, str] = {}
    for name, document in {"api": contract.document(), "admin": admin.document()}.items():
        plain = msgspec.json.decode(msgspec.json.encode(document))
        found[FOLDER / f"{name}.json"] = _in_lines(plain, 3) + "\n"
    return found


def _in_lines(value: Any, depth: int) -> str:
    """JSON with a line for each path and each schema, which are as deep as that."""
    if depth == 0 or not isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    members = (f"{msgspec.json.encode(name).decode()}:{_in_lines(each, depth - 1)}" for name, each in value.items())
    return "{" + ",\n".join(members) + "}"
