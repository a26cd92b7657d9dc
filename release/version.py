"""The version of a build: that of the tag, or one that says which commit after the last release it is.

The source names the release that comes next, as `0.2.0.dev0`. A commit with the tag `v0.2.0` is built as `0.2.0`, any
other commit as `0.2.0.dev12+g1a2b3c4`: twelve commits after the last release.
"""

import re
import subprocess
from pathlib import Path

_DECLARED = re.compile(r'^__version__ = "([0-9.]+)\.dev0"$', re.MULTILINE)
_DECLARES_VERSION = "src/relaydeck/__init__.py"
# Where else the source states its version. A test compares them.
STATED_IN = (
    _DECLARES_VERSION,
    "clients/python/pyproject.toml",
    "clients/typescript/package.json",
    "src/relaydeck/api/documents/admin.json",
    "src/relaydeck/api/documents/api.json",
)


class ReleaseError(Exception):
    """What stops a release, in words for the person who makes it."""


def next_release(root: Path) -> str:
    """`0.2.0`"""
    found = _DECLARED.search((root / _DECLARES_VERSION).read_text("utf-8"))
    if found is None:
        raise ReleaseError(f"{_DECLARES_VERSION} must declare the next release, as 0.2.0.dev0")
    return found[1]


def version_of(root: Path) -> str:
    """Of the commit that is checked out."""
    coming = next_release(root)
    tags = [tag for tag in git(root, "tag", "--points-at", "HEAD").split() if tag.startswith("v")]
    if tags and tags != [f"v{coming}"]:
        raise ReleaseError(f"the commit has the tag {', '.join(tags)}, but the source is that of {coming}")
    if tags:
        return coming
    last = git(root, "tag", "--merged", "HEAD", "--sort=-version:refname", "--list", "v*").split()
    since = [f"{last[0]}..HEAD"] if last else ["HEAD"]
    commits = git(root, "rev-list", "--count", *since)
    return f"{coming}.dev{commits}+g{git(root, 'rev-parse', '--short=7', 'HEAD')}"


def write_version(source: Path, version: str) -> None:
    """Into a copy of the source."""
    declared = f"{next_release(source)}.dev0"
    for name in STATED_IN:
        path = source / name
        text = path.read_text("utf-8")
        form = npm_version if name.endswith("package.json") else str
        if form(declared) not in text:
            raise ReleaseError(f"{name} does not state the version {form(declared)}")
        path.write_text(text.replace(form(declared), form(version)), "utf-8")


def npm_version(version: str) -> str:
    """In the form of npm: `0.2.0-dev.12+g1a2b3c4`."""
    return version.replace(".dev", "-dev.")


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()
