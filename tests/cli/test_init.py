"""`relaydeck init` writes an apply file that applies, as it is and with every optional line in use."""

import json
import re
import stat
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from tests.support.running import run_command

KEY = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
EXAMPLES = ("start", "demo", "laptop")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def written(home: Path, tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    done = run_command(home, "init", str(path))
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "",
        f"wrote {path}; edit it, then see what it would change with: relaydeck apply {path} --plan\n",
    )
    return path


def with_key(path: Path, text: str) -> str:
    """The file with its secret beside it, as a reference to a file."""
    (path.parent / "key").write_text(KEY, "utf-8")
    return text.replace('{ env = "OPS_KEY" }', '{ file = "key" }')


def test_it_can_be_applied_once_its_secret_is_there(home: Path, written: Path) -> None:
    refused = run_command(home, "apply", str(written))
    assert "signers[0].config.key: the environment variable OPS_KEY is not set" in refused.stderr
    written.write_text(with_key(written, written.read_text("utf-8")), "utf-8")
    assert run_command(home, "apply", str(written)).stdout == (
        "created: 1 network, 1 signer, 1 notification, 1 relayer\n"
    )


def test_every_optional_line_can_be_used(home: Path, written: Path) -> None:
    used = re.sub(r"^#(?=[\w\[])", "", written.read_text("utf-8"), flags=re.MULTILINE)
    used = used.replace('{ env = "PAGER_SIGNING_KEY" }', '"a key"').replace(
        '\naddress = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"',
        "",  # the signer has another one
    )
    written.write_text(with_key(written, used), "utf-8")
    done = run_command(home, "apply", str(written))
    assert done.stderr == f"relaydeck: created a new home in {home}\n"
    assert done.stdout == "created: 1 network, 2 signers, 1 notification, 1 relayer\n"


def test_it_is_its_owner_s_alone(written: Path) -> None:
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


def test_it_overwrites_nothing(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("mine", "utf-8")
    done = run_command(home, "init", str(path))
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"relaydeck: {path} exists\nName another file, or remove this one. Nothing was written.\n",
    )
    assert path.read_text("utf-8") == "mine"


@pytest.mark.parametrize(("folder", "reason"), [("none", "No such file or directory"), ("file", "Not a directory")])
def test_a_folder_that_cannot_be_written_is_named(home: Path, tmp_path: Path, folder: str, reason: str) -> None:
    (tmp_path / "file").write_text("")
    done = run_command(home, "init", str(tmp_path / folder / "mine.toml"))
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"relaydeck: mine.toml cannot be written to the folder {tmp_path / folder}: {reason}\n"
        "Create the folder, or make it writable, or name a file in another folder. Nothing was written.\n",
    )


def test_it_writes_to_the_current_folder_and_needs_no_home(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_command(home, "init", "--json")
    assert json.loads(done.stdout) == {"file": "relaydeck.toml", "example": "start"}
    assert (tmp_path / "relaydeck.toml").is_file() and not home.exists()


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_can_be_written(home: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.toml"
    assert run_command(home, "init", str(path), "--example", name).returncode == 0
    bundled = (files("relaydeck") / "examples" / f"{name}.toml").read_text("utf-8")
    assert tomllib.loads(path.read_text("utf-8")) == tomllib.loads(bundled)


def test_every_bundled_file_is_an_example() -> None:
    assert {path.name for path in (files("relaydeck") / "examples").iterdir()} == {f"{name}.toml" for name in EXAMPLES}


def test_the_example_of_the_tour_is_the_bundled_one() -> None:
    assert (ROOT / "examples" / "demo.toml").resolve() == ROOT / "src" / "relaydeck" / "examples" / "demo.toml"
