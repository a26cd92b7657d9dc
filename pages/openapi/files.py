"""`src/relaydeck/api/documents/`: both documents and their web pages, as the service sends them."""

import re
from pathlib import Path
from typing import Any

import msgspec

from pages.openapi import admin, contract, web_page

_LINE_IN_SECTION = re.compile(
    r"(</?(?:article|dd|details|div|dl|h[1-6]|li|p|pre|summary|ul)[^>]*>)\n(?=</?(?!article|h2)[a-z])"
)
FOLDER = Path(__file__).parents[2] / "src" / "relaydeck" / "api" / "documents"


def contents() -> dict[Path, str]:
    found: dict[Path, str] = {}
    for name, document in {"api": contract.document(), "admin": admin.document()}.items():
        plain = msgspec.json.decode(msgspec.json.encode(document))
        found[FOLDER / f"{name}.json"] = _in_lines(plain, 3) + "\n"
        found[FOLDER / f"{name}.html"] = _LINE_IN_SECTION.sub(r"\1", web_page.page(plain))
    return found


def _in_lines(value: Any, depth: int) -> str:
    """JSON with a line for each path and each schema, which are as deep as that."""
    if depth == 0 or not isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    members = (f"{msgspec.json.encode(name).decode()}:{_in_lines(each, depth - 1)}" for name, each in value.items())
    return "{" + ",\n".join(members) + "}"
