"""The wheel, installed with its locked dependencies for each Python that we name and this machine has, and used."""

import glob
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from release import artifacts
from release.version import version_of
from tests.release.test_artifacts import run
from tests.support.released import released

pytestmark = [pytest.mark.prove, pytest.mark.parallel]  # installs and serves: a minute each

ROOT = Path(__file__).parents[2]


def _named() -> list[str]:
    """The versions of Python in the classifiers of the package."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["classifiers"]
    return [found[1] for each in classifiers if (found := re.fullmatch(r".*:: Python :: (3\.\d+)", each))]


def _programs() -> dict[str, str]:
    """This Python, and those of pyenv or on the path. A shim of pyenv starts only what is chosen, so it is left out."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    for version in _named():
        folders = [*glob.glob(str(Path.home() / f".pyenv/versions/{version}.*/bin")), *os.get_exec_path()]
        programs = (Path(folder) / f"python{version}" for folder in folders if not folder.endswith("/shims"))
        if program := next((each for each in programs if each.is_file()), None):
            found.setdefault(version, str(program))
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if found := released("relaydeck-*.whl"):
        return found
    target = tmp_path_factory.mktemp("pythons")
    artifacts.build_packages(ROOT, version_of(ROOT), target)
    return next(target.glob("relaydeck-*.whl"))


def test_the_present_python_is_named() -> None:
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in _named()


@pytest.mark.parametrize("program", _programs().values(), ids=_programs().keys())
def test_the_wheel_installs_and_serves(wheel: Path, program: str, tmp_path: Path) -> None:
    subprocess.run([program, "-m", "venv", str(tmp_path / "venv")], check=True)
    binaries = tmp_path / "venv" / "bin"
    pip = [str(binaries / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*pip, "--require-hashes", "-r", str(ROOT / "requirements.lock")], check=True)
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    assert "verified" in run(tmp_path, str(binaries / "relaydeck"), "demo")
