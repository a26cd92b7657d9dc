"""`docs/reference/pages.md`, which `make docs` writes: how long each page of the site is, and what a test runs."""

import re
from pathlib import Path

from pages.examples import read_page
from pages.site import ROOT, parts

PAGE = ROOT / "docs" / "reference" / "pages.md"
_LEFT_OUT = ("docs/reference/pages.md", "CHANGELOG.md")
MOST_WORDS = 1200  # of a page of Start or Guides; pages of the reference and the background may be longer
_HEAD = """# Sizes of the pages

A page of *Start* or *Guides* has at most {most:,} words; those of *Reference* and *Background* may have more.
A test runs the commands of the pages for users, and compares what they print. `make docs` writes this page.

| part | page | words | commands that a test runs | blocks that it does not run, and why |
|---|---|---|---|---|
"""


def words(path: Path) -> int:
    """Without comments, which readers do not see."""
    return len(re.sub(r"<!--.*?-->", "", path.read_text("utf-8"), flags=re.DOTALL).split())


def is_run(part: str, name: str) -> bool:
    """Pages of the reference that are generated have tests of their own."""
    return part in ("Start", "Guides") or (part == "Reference" and "/reference/" not in name)


def page() -> str:
    rows = []
    for part, name in ((part, name) for part, names in parts().items() for name in names):
        steps = read_page(ROOT / name, name).steps if is_run(part, name) else []
        reasons = sorted({each.elsewhere for each in steps if each.elsewhere and not each.elsewhere.startswith("see ")})
        run = sum(bool(each.command) for each in steps)
        if name not in _LEFT_OUT:
            rows.append(f"| {part} | `{name}` | {words(ROOT / name):,} | {run or ''} | {'; '.join(reasons)} |")
    return _HEAD.format(most=MOST_WORDS) + "\n".join([*rows, ""])
