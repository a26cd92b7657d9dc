"""Builds the container image without an image registry: the base from Debian's packages, the rest from the lock.

It needs mmdebstrap and buildah, both packages of Debian, and root. Where a registry can be reached,
deploy/Containerfile builds from the official Python image instead, as it says itself.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from release.version import ReleaseError

BASE, IMAGE = "localhost/relaydeck-base", "localhost/relaydeck"
PROGRAMS = ("mmdebstrap", "buildah")
_PACKAGES = "python3-venv,python-is-python3,ca-certificates"
_SUITE = "bookworm"
_SOURCES = Path("/etc/apt")
# The build installs from a folder of wheels, which pip has verified by their hashes.
_PIP_SETTINGS = "[global]\nno-index = true\nfind-links = /wheels\n"
# The markers are those of this Python, and the image has another one.
_PYTHON_MARKER = re.compile(r" ; python_full_version < '3\.11\.[0-9]+'")


def missing_programs() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name) is None]


def build_base() -> None:
    """As an image of the local storage, unless it is there already."""
    if subprocess.run(["buildah", "images", BASE], capture_output=True, check=False).returncode == 0:
        return
    with tempfile.TemporaryDirectory(prefix="relaydeck-base-") as folder:
        archive = Path(folder) / "base.tar"
        sources = [str(path) for path in sorted(_SOURCES.glob("sources.list.d/*.sources"))] or [
            str(_SOURCES / "sources.list")
        ]
        _run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(archive), *sources)
        container = _output("buildah", "from", "scratch")
        try:
            _run("buildah", "add", "--quiet", container, str(archive), "/")
            _run("buildah", "commit", "--quiet", container, BASE)
        finally:
            _run("buildah", "rm", container)


def build_image(source: Path) -> None:
    """From a source tree, as `IMAGE`."""
    if missing := missing_programs():
        raise ReleaseError(f"the image needs {' and '.join(missing)}: apt-get install {' '.join(missing)}")
    build_base()
    with tempfile.TemporaryDirectory(prefix="relaydeck-wheels-") as folder:
        wheels, settings, lock = (Path(folder) / name for name in ("wheels", "pip.conf", "lock"))
        wheels.mkdir()
        settings.write_text(_PIP_SETTINGS, "utf-8")
        lock.write_text(_PYTHON_MARKER.sub("", (source / "requirements.lock").read_text("utf-8")), "utf-8")
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
        _run(*pip, "download", "--require-hashes", "-r", str(lock), "-d", str(wheels))
        _run(
            *("buildah", "build", "--quiet", "--isolation", "chroot", "--format", "docker", "--pull=never"),
            *("--build-arg", f"BASE={BASE}", "--volume", f"{settings}:/etc/pip.conf:ro"),
            *("--volume", f"{wheels}:/wheels:ro", "--file", "deploy/Containerfile", "--tag", IMAGE, "."),
            folder=source,
        )


def save_image(archive: Path) -> None:
    """In a file that `docker load` and `podman load` read."""
    _run("buildah", "push", "--quiet", IMAGE, f"docker-archive:{archive}:relaydeck:latest")


def _run(*command: str, folder: Path | None = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}")


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
