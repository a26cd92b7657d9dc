"""The pages of the site, copied to where its generator reads them. `make site` builds it with properdocs.yml.

The site has the folders of the repository, so that a link between pages is the same in both.
"""

import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "pages"
# Besides pages: what they show, and files that they link to.
_KINDS = ("*.md", "docs/*.svg", "docs/*.png", "deploy/*.yaml", "LICENSE")
_ELSEWHERE = ("tests/", "bench/")


def slug(heading: str, separator: str) -> str:
    """The anchor of a heading, as the pages of the repository have it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def names() -> list[str]:
    """The files of the site."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *_KINDS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    listed = done.stdout.splitlines()
    return [each for each in listed if not each.startswith(_ELSEWHERE)]


def parts() -> dict[str, list[str]]:
    """The pages of each part of the site, as its navigation lists them."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "properdocs.yml").read_text("utf-8").partition("\nnav:\n")[2].splitlines():
        if part := re.fullmatch(r"  - (\w+):", line):
            found[part[1]] = []
        elif page := re.search(r": ([\w./-]+\.md)$", line):
            found[[*found][-1]].append(page[1])
    return found


def copy() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name in names():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, FOLDER / name)


if __name__ == "__main__":
    copy()
