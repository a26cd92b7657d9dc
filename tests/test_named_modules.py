"""The modules that pages name exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FOLDERS = (ROOT / "src" / "relaydeck", ROOT / "src", ROOT, ROOT / "tests")
_NAMED = re.compile(r"[`( ]([a-z_]+(?:/[a-z_0-9]+)*\.(?:py|lua|sql))\b")
_WRITTEN_BY_READERS = {"receiver.py"}


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_a_module_that_a_page_names_exists(page: Path) -> None:
    named = set(_NAMED.findall(page.read_text("utf-8"))) - _WRITTEN_BY_READERS
    assert sorted(each for each in named if not any((folder / each).exists() for folder in _FOLDERS)) == []
