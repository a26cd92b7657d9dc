"""Builds the artifacts of a release from a commit, each of them twice where it must be the same both times."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clients.typescript.make_types import build as build_typescript
from release import image
from release.version import ReleaseError, git, version_of, write_version

_BUILD = "import sys; from flit_core.buildapi import {0}; print({0}(sys.argv[1]))"
_TYPESCRIPT = "clients/typescript"
_BLANK = "TO BE FILLED IN"


@contextmanager
def copy_of(root: Path, version: str) -> Iterator[Path]:
    """The files of the commit that is checked out, with the version written into them."""
    with tempfile.TemporaryDirectory(prefix="relaydeck-release-") as folder:
        source = Path(folder) / "source"
        source.mkdir()
        archive = Path(folder) / "source.tar"
        git(root, "archive", "--format=tar", f"--output={archive}", "HEAD")
        with tarfile.open(archive) as tar:
            tar.extractall(source, filter="data")
        write_version(source, version)
        yield source


def build_packages(root: Path, version: str, target: Path) -> list[Path]:
    """Wheel and source archive of the service, wheel of the client, package for npm. Refuses two different builds."""
    first, second = (target / name for name in ("first", "second"))
    for folder in (first, second):
        folder.mkdir(parents=True)
        with copy_of(root, version) as source:
            _build_packages(source, folder, moment_of(root))
    names = sorted(path.name for path in first.iterdir())
    for name in names:
        _require_equal(first / name, second / name)
    for name in names:
        (first / name).chmod(0o644)  # flit leaves a wheel to its user alone
        (first / name).replace(target / name)
    shutil.rmtree(first)
    shutil.rmtree(second)
    return [target / name for name in names]


def moment_of(root: Path) -> int:
    """That of the commit which is checked out: everything is built as if at this moment."""
    return int(git(root, "show", "--no-patch", "--format=%ct", "HEAD"))


def _build_packages(source: Path, target: Path, moment: int) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(moment), "PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC"}

    def run(folder: Path, *command: str) -> None:
        subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)

    run(source, sys.executable, "-c", _BUILD.format("build_wheel"), str(target))
    run(source, sys.executable, "-c", _BUILD.format("build_sdist"), str(target))
    client = source / "clients" / "python"
    run(client, sys.executable, "-c", _BUILD.format("build_wheel"), str(target))
    build_typescript(source / _TYPESCRIPT)
    run(source / _TYPESCRIPT, npm(), "pack", "--silent", "--ignore-scripts", "--pack-destination", str(target))


def npm() -> str:
    found = shutil.which("npm")
    if found is None:
        raise ReleaseError("npm is missing: `make test` installs it in .venv/bin, or install Node.js")
    return found


def build_image(root: Path, version: str, target: Path) -> Path:
    """The archive of the container image. Refuses two different builds."""
    first = target / f"relaydeck-{version}-image.tar"
    with tempfile.TemporaryDirectory(prefix="relaydeck-image-") as folder:
        second = Path(folder) / first.name
        for archive in (first, second):
            with copy_of(root, version) as source:
                image.build_archive(source, moment_of(root), archive)
        _require_equal(first, second)
    return first


def _require_equal(first: Path, second: Path) -> None:
    if digest_of(first) != digest_of(second):
        raise ReleaseError(f"{first.name} is not the same when it is built again")


def write_checksums(folder: Path) -> Path:
    """`SHA256SUMS`, as `sha256sum --check` reads it."""
    listed = sorted(path for path in folder.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    target = folder / "SHA256SUMS"
    target.write_text("".join(f"{digest_of(path)}  {path.name}\n" for path in listed), "utf-8")
    return target


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def notes_of(changelog: str, version: str) -> str:
    """What CHANGELOG says of a release: the section with its number, or the first one for a build between releases."""
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    if not sections:
        raise ReleaseError("CHANGELOG.md has no section")
    for section in sections:
        title, _, text = section.partition("\n")
        if title.split()[0] == version:
            return text.strip() + "\n"
    if ".dev" in version:
        return sections[0].partition("\n")[2].strip() + "\n"
    raise ReleaseError(f"CHANGELOG.md has no section for {version}")


def require_filled_in(root: Path, version: str) -> None:
    """Whoever has a release must know whom to tell about a weakness, and of which day the release is."""
    if ".dev" in version:
        return
    if _BLANK in (root / "SECURITY.md").read_text("utf-8"):
        raise ReleaseError(f'SECURITY.md says "{_BLANK}": fill it in, commit, and move the tag')
    headings = re.findall(r"^## (.+)$", (root / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)
    if any(each.split()[0] == version and "unreleased" in each for each in headings):
        raise ReleaseError(f"CHANGELOG.md says that {version} is unreleased: set its date, commit, and move the tag")


def build(root: Path, target: Path, show: Callable[[str], None]) -> str:
    """Everything but the image and the bill of materials, which need other programs. Returns the version."""
    version = version_of(root)
    if git(root, "status", "--porcelain"):
        raise ReleaseError("the work tree has changes that no commit contains: commit or remove them first")
    require_filled_in(root, version)
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    show(f"building {version}, each package twice")
    for path in build_packages(root, version, target):
        show(f"  {path.name}")
    notes = target / "RELEASE-NOTES.md"
    notes.write_text(notes_of((root / "CHANGELOG.md").read_text("utf-8"), version), "utf-8")
    return version
