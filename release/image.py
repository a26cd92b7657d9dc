"""Builds the container image without an image registry: the base from Debian's packages, the rest from the lock.

It needs mmdebstrap and buildah, both packages of Debian, and root. Where a registry can be reached,
deploy/Containerfile builds from the official Python image instead, as it says itself.
"""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from release.version import ReleaseError

IMAGE = "localhost/relaydeck"
PROGRAMS = ("mmdebstrap", "buildah")
_PACKAGES = "python3-venv,python-is-python3,ca-certificates"
_SUITE = "bookworm"
_SOURCES = Path("/etc/apt")
# mmdebstrap copies the name and the resolver of the machine that builds.
_BASE = ("--variant=minbase", f"--include={_PACKAGES}", '--customize-hook=rm "$1/etc/hostname" "$1/etc/resolv.conf"')
# The build installs from a folder of wheels, which pip has verified by their hashes.
_PIP_SETTINGS = "[global]\nno-index = true\nfind-links = /wheels\n"
# The markers are those of this Python, and the image has another one.
_PYTHON_MARKER = re.compile(r" ; python_full_version < '3\.11\.[0-9]+'")


class Builder:
    """Builds as if at `moment`, in seconds since 1970, so that nothing in the image says when it was really built.

    `storage`: options of buildah that say where it keeps images; by default where this machine keeps all of them.
    """

    def __init__(self, moment: int, storage: Sequence[str] = ()) -> None:
        self._moment = str(moment)
        self._buildah = ("buildah", *storage)

    def build(self, source: Path) -> None:
        """From a source tree, as `IMAGE`."""
        if missing := missing_programs():
            raise ReleaseError(f"the image needs {' and '.join(missing)}: apt-get install {' '.join(missing)}")
        base = self._build_base()
        with tempfile.TemporaryDirectory(prefix="relaydeck-wheels-") as folder:
            wheels, settings, lock = (Path(folder) / name for name in ("wheels", "pip.conf", "lock"))
            wheels.mkdir()
            settings.write_text(_PIP_SETTINGS, "utf-8")
            lock.write_text(_PYTHON_MARKER.sub("", (source / "requirements.lock").read_text("utf-8")), "utf-8")
            pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
            _run(*pip, "download", "--require-hashes", "-r", str(lock), "-d", str(wheels))
            _run(
                *(*self._buildah, "build", "--quiet", "--isolation", "chroot", "--format", "docker", "--pull=never"),
                *("--build-arg", f"BASE={base}", "--volume", f"{settings}:/etc/pip.conf:ro"),
                *("--build-arg", f"SOURCE_DATE_EPOCH={self._moment}", "--timestamp", self._moment),
                *("--volume", f"{wheels}:/wheels:ro", "--file", "deploy/Containerfile", "--tag", IMAGE, "."),
                folder=source,
            )

    def save(self, archive: Path, name: str = IMAGE) -> None:
        """In a file that `docker load` and `podman load` read."""
        with tempfile.TemporaryDirectory(prefix="relaydeck-archive-") as folder:
            pushed = Path(folder) / "image.tar"
            _run(*self._buildah, "push", "--quiet", name, f"docker-archive:{pushed}:relaydeck:latest")
            with tarfile.open(pushed) as source, tarfile.open(archive, "w") as target:
                _copy_archive(source, target)

    def _build_base(self) -> str:
        """As an image of the storage, unless it is there already."""
        recipe = hashlib.sha256("\n".join((*_BASE, _SUITE, self._moment)).encode()).hexdigest()
        name = f"localhost/relaydeck-base:{recipe[:12]}"
        if subprocess.run([*self._buildah, "images", name], capture_output=True, check=False).returncode == 0:
            return name
        with tempfile.TemporaryDirectory(prefix="relaydeck-base-") as folder:
            archive = Path(folder) / "base.tar"
            sources = [str(path) for path in sorted(_SOURCES.glob("sources.list.d/*.sources"))] or [
                str(_SOURCES / "sources.list")
            ]
            _run("mmdebstrap", "--quiet", *_BASE, _SUITE, str(archive), *sources, SOURCE_DATE_EPOCH=self._moment)
            container = _run(*self._buildah, "from", "scratch")
            try:
                _run(*self._buildah, "add", "--quiet", container, str(archive), "/")
                _run(*self._buildah, "commit", "--quiet", "--timestamp", self._moment, container, name)
            finally:
                _run(*self._buildah, "rm", container)
        return name


def missing_programs() -> list[str]:
    return [name for name in PROGRAMS if shutil.which(name) is None]


def build_archive(source: Path, moment: int, archive: Path) -> None:
    """Without anything from an earlier build: the base is made again, from the packages that Debian has now."""
    with tempfile.TemporaryDirectory(prefix="relaydeck-storage-") as folder:
        builder = Builder(moment, ("--root", f"{folder}/root", "--runroot", f"{folder}/run"))
        builder.build(source)
        builder.save(archive)


def _copy_archive(source: tarfile.TarFile, target: tarfile.TarFile) -> None:
    """Without what names the containers of the build and the images of its storage: it is another one in each build."""
    (listed,) = json.loads(_member(source, "manifest.json").read())
    config = json.loads(_member(source, listed["Config"]).read())
    for name in ("container", "container_config", "parent"):
        config.pop(name, None)
    config["config"]["Hostname"] = ""
    written = json.dumps(config).encode()
    listed |= {"Config": f"{hashlib.sha256(written).hexdigest()}.json", "RepoTags": ["relaydeck:latest"]}
    _add(target, listed["Config"], io.BytesIO(written), len(written))
    for name in listed["Layers"]:
        _add(target, name, _member(source, name), source.getmember(name).size)
    manifest = json.dumps([listed]).encode()
    _add(target, "manifest.json", io.BytesIO(manifest), len(manifest))


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(name)
    assert found is not None
    return found


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    described = tarfile.TarInfo(name)
    described.size = size
    archive.addfile(described, content)


def _run(*command: str, folder: Path | None = None, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ReleaseError(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout.strip()
