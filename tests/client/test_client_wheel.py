"""The wheel of the client alone, installed into an empty environment, runs the page's examples on a live service."""

import json
import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from relaydeck import __version__
from tests.client.conftest import serve
from tests.client.test_client_page import EXAMPLES, PAGE
from tests.support.running import Running
from tests.test_wheel import BUILD, ROOT

RUN_EXAMPLES = """
import contextlib, io, json, sys
names = {}
for code, expected in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "docs/client.md", "exec"), names)
    assert printed.getvalue() == expected, (code, printed.getvalue())
import relaydeck.client
print(relaydeck.client.__file__)
"""
WITHOUT_AIOHTTP = """
import os
from relaydeck.client import AsyncClient, Client
with Client(os.environ["RELAYDECK_URL"], os.environ["RELAYDECK_TOKEN"]) as client:
    print(client.list_relayers().items[0].name)
try:
    AsyncClient(os.environ["RELAYDECK_URL"], os.environ["RELAYDECK_TOKEN"])
except ModuleNotFoundError as error:
    print(error)
"""


def built(project: Path, folder: Path) -> Path:
    command = [sys.executable, "-c", BUILD, str(folder)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT / "clients" / "python", tmp_path_factory.mktemp("client-wheel"))


@pytest.fixture
def environment(tmp_path: Path, wheel: Path) -> Path:
    """An environment with the wheel and msgspec, from the tests' own environment, so that nothing is fetched."""
    place = tmp_path / "venv"
    venv.create(place, symlinks=True)
    link(place, distribution("msgspec"))
    pip(place, "install", "--no-index", str(wheel))
    return place


@pytest.fixture
def service(home: Path) -> Iterator[Running]:
    with serve(home) as running:
        yield running


def pip(environment: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(environment / "bin/python")]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def link(environment: Path, installed: Distribution) -> None:
    (packages,) = environment.glob("lib/python*/site-packages")
    for top in {file.parts[0] for file in installed.files or () if file.parts[0] != ".."}:
        if not (packages / top).exists():
            (packages / top).symlink_to(str(installed.locate_file(top)))


def with_dependencies(name: str) -> dict[str, Distribution]:
    found = {name: distribution(name)}
    for text in found[name].requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            found |= with_dependencies(requirement.name)
    return found


def run(environment: Path, service: Running, code: str, given: object = None) -> str:
    variables = {"RELAYDECK_URL": f"http://127.0.0.1:{service.port}", "RELAYDECK_TOKEN": service.token}
    done = subprocess.run(
        [environment / "bin" / "python", "-c", code],
        cwd=environment,
        env={"PATH": os.defpath, **variables},
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_contains_the_client_and_nothing_else(wheel: Path) -> None:
    source = ROOT / "src"
    files = [path for path in (source / "relaydeck" / "client").iterdir() if path.is_file()]
    with ZipFile(wheel) as archive:
        contained = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert contained == {str(path.relative_to(source)) for path in files}


def test_the_page_names_the_wheel(wheel: Path) -> None:
    assert PAGE.count(f"dist/{wheel.name}") == 2


def test_it_has_the_version_and_the_bounds_of_the_service() -> None:
    service, client = (project(folder) for folder in (ROOT, ROOT / "clients" / "python"))
    assert client["version"] == __version__
    assert {*client["dependencies"], *client["optional-dependencies"]["async"]} <= set(service["dependencies"])


def project(folder: Path) -> dict[str, Any]:
    declared: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    return declared


def test_the_examples_of_the_page_run_with_it(environment: Path, service: Running, wheel: Path) -> None:
    """pip finds what the wheel requires in the environment: msgspec, and for AsyncClient aiohttp."""
    assert run(environment, service, WITHOUT_AIOHTTP) == "Sepolia one\nNo module named 'aiohttp'\n"
    for each in with_dependencies("aiohttp").values():
        link(environment, each)
    pip(environment, "install", "--no-index", f"{wheel}[async]")
    place = run(environment, service, RUN_EXAMPLES, EXAMPLES).strip()
    assert Path(place).is_relative_to(environment)


@pytest.mark.prove
@pytest.mark.parallel
@pytest.mark.parametrize("client_last", [True, False], ids=["client last", "service last"])
def test_both_distributions_work_in_one_environment(tmp_path: Path, wheel: Path, client_last: bool) -> None:
    """Also after the client is uninstalled and the service is installed again, as the page says."""
    place = tmp_path / "venv"
    venv.create(place, symlinks=True)
    for name, needed in with_dependencies("relaydeck").items():
        if name != "relaydeck":
            link(place, needed)
    service_wheel = built(ROOT, tmp_path)
    for each in (service_wheel, wheel) if client_last else (wheel, service_wheel):
        pip(place, "install", "--no-index", "--no-deps", str(each))
    assert imported(place) == f"{__version__} <class 'relaydeck.client.clients.Client'>\n"
    pip(place, "uninstall", "--yes", "relaydeck-client")
    pip(place, "install", "--no-index", "--no-deps", "--force-reinstall", str(service_wheel))
    assert imported(place) == f"{__version__} <class 'relaydeck.client.clients.Client'>\n"


def imported(environment: Path) -> str:
    code = "import relaydeck.cli.commands, relaydeck.client; print(relaydeck.__version__, relaydeck.client.Client)"
    command = [str(environment / "bin" / "python"), "-c", code]
    return subprocess.run(command, cwd=environment, capture_output=True, text=True, check=True).stdout
