"""Each row of the page of open items names code and settings that exist."""

import re
from pathlib import Path

import pytest

from relaydeck.settings.model import unknown_names

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "relaydeck"
PAGE = (ROOT / "docs" / "open-items.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| open |")
]
CODE = re.compile(r"`([^`]+)`")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_the_code_it_names_exists(row: list[str]) -> None:
    _, _, _, where, _ = row
    path = SOURCE
    for name in CODE.findall(where):
        if "/" in name or name.endswith(".py"):
            path = SOURCE / name
            assert path.exists(), name
        else:
            assert re.search(rf"\b{re.escape(name)}\b", path.read_text("utf-8")), name


def test_the_settings_it_names_exist() -> None:
    named = {name for row in ROWS for name in CODE.findall(row[4]) if not name.endswith("*")}
    assert unknown_names(named) == []
