"""The built wheel, installed into a clean environment, has the command, every file, and runs the demo."""

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import click
import pytest

from relaydeck import __version__

ROOT = Path(__file__).parent.parent
BUILD = "import sys; from flit_core.buildapi import build_wheel; print(build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return folder / built.stdout.split()[-1]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment with the wheel. Its dependencies are those of the tests, so nothing is fetched."""
    environment = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(environment, symlinks=True)
    install = ["-m", "pip", "--disable-pip-version-check", "--quiet", "--python", str(environment / "bin" / "python")]
    subprocess.run(
        [sys.executable, *install, "install", "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True
    )
    (packages,) = environment.glob("lib/python*/site-packages")
    # A path in such a file is added after those of the environment, and the files like it in there are not read.
    (packages / "dependencies.pth").write_text(f"{Path(click.__file__).parents[1]}\n", "utf-8")
    return environment / "bin" / "relaydeck"


def run(installed: Path, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": os.defpath, "TMPDIR": str(folder), "HOME": str(folder), "LANG": "C.UTF-8"}
    return subprocess.run(
        [installed, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_it_contains_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    source = ROOT / "src"
    expected = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path)
    }
    with ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == expected


def test_the_code_that_runs_is_the_installed_one(installed: Path, tmp_path: Path) -> None:
    code = "import relaydeck, importlib.metadata as m; print(relaydeck.__file__, m.version('relaydeck'))"
    environment = installed.parents[1]
    done = subprocess.run(
        [environment / "bin" / "python", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    place, version = done.stdout.split()
    assert Path(place).is_relative_to(environment) and version == __version__


def test_it_has_the_command(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"relaydeck {__version__}\n", "")


def test_it_writes_an_apply_file(installed: Path, tmp_path: Path) -> None:
    assert run(installed, tmp_path, "init").returncode == 0
    assert (tmp_path / "relaydeck.toml").read_text("utf-8").count("relaydeck apply relaydeck.toml") == 2


def test_it_runs_the_demo(installed: Path, tmp_path: Path) -> None:
    done = run(installed, tmp_path, "demo", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["fee"], report["webhook"]["verified"]) == ({"amount": "0.000042", "token": "ETH"}, True)


def test_the_readme_shows_how_to_install_it() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    commands = re.findall(r"^(pipx|uvx|pip) ", page, re.MULTILINE)
    assert commands == ["pipx", "uvx", "pip"]
