"""What a release publishes: each package built twice and the same, installed in an empty environment, and used."""

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

import click
import pytest

from release import artifacts
from release.version import npm_version, version_of
from tests.client.conftest import serve
from tests.support.released import released

pytestmark = [pytest.mark.prove, pytest.mark.parallel]  # builds, installs and serves: minutes

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def version() -> str:
    return version_of(ROOT)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory, version: str) -> Path:
    """Raises when two builds differ."""
    if folder := released():
        return folder
    target = tmp_path_factory.mktemp("release") / "dist"
    target.mkdir()
    artifacts.build_packages(ROOT, version, target)
    artifacts.write_checksums(target)
    return target


def test_there_are_four_packages_that_everyone_can_read(dist: Path, version: str) -> None:
    packages = [path for path in dist.iterdir() if path.suffix in (".whl", ".gz", ".tgz")]
    assert {path.stat().st_mode & 0o777 for path in packages} == {0o644}
    assert {path.name for path in packages} == {
        f"relaydeck-{version}-py3-none-any.whl",
        f"relaydeck-{version}.tar.gz",
        f"relaydeck_client-{version}-py3-none-any.whl",
        f"relaydeck-client-{npm_version(version)}.tgz",
    }


def test_the_checksums_are_those_of_the_files(dist: Path) -> None:
    lines = (dist / "SHA256SUMS").read_text("utf-8").splitlines()
    found = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    expected = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in dist.iterdir() if p.name != "SHA256SUMS"}
    assert found == expected


@pytest.mark.parametrize("pattern", ["relaydeck-*.whl", "relaydeck-*.tar.gz"])
def test_the_service_runs_from_an_empty_environment(dist: Path, version: str, tmp_path: Path, pattern: str) -> None:
    command = installed(next(dist.glob(pattern)), tmp_path) / "relaydeck"
    assert run(tmp_path, str(command), "--version") == f"relaydeck {version}\n"
    assert "verified" in run(tmp_path, str(command), "demo")


def test_the_client_alone_states_its_version_and_calls_a_service(dist: Path, version: str, tmp_path: Path) -> None:
    binaries = installed(next(dist.glob("relaydeck_client-*.whl")), tmp_path)
    code = (
        "import sys; from importlib.metadata import version; from relaydeck.client import Client;"
        " print(version('relaydeck-client'), Client(*sys.argv[1:]).list_signers().items[0].id)"
    )
    with serve(tmp_path / "home") as service:
        called = (code, f"http://127.0.0.1:{service.port}", service.token)
        assert run(tmp_path, str(binaries / "python"), "-c", *called) == f"{version} ops\n"


def installed(package: Path, folder: Path) -> Path:
    """The programs of an environment with the package. Dependencies are those of the tests: nothing is fetched."""
    environment = folder / "venv"
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{Path(click.__file__).parents[1]}\n", "utf-8")
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", str(python), "install"]
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed"]
    subprocess.run([*pip, *options, str(package)], check=True, capture_output=True)
    return environment / "bin"


def run(folder: Path, *command: str) -> str:
    environment = {"PATH": os.defpath, "TMPDIR": str(folder), "HOME": str(folder), "LANG": "C.UTF-8"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
