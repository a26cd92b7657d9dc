"""Earlier versions of Relaydeck, from the history of this repository: their commands, and their services."""

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.support.running import COMMAND, Running, clean_environment, free_port

TODAY = ""
_ROOT = Path(__file__).resolve().parents[2]


@cache
def sources_of(commit: str) -> Path:
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=_ROOT, capture_output=True, check=False)
    assert archive.returncode == 0, (
        f"commit {commit} is not in this clone: an earlier version can only be tested with the whole history"
        f" (git fetch --unshallow). {archive.stderr.decode()}"
    )
    folder = Path(tempfile.mkdtemp(prefix=f"relaydeck-{commit}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder / "src"


def environment_of(commit: str, home: Path, **settings: str) -> dict[str, str]:
    """Of processes of that version."""
    return clean_environment(home, **settings) | ({"PYTHONPATH": str(sources_of(commit))} if commit else {})


def run_version(commit: str, home: Path, *arguments: str, stdin: str = "", **settings: str) -> str:
    """Run `relaydeck …` of that version; what it printed."""
    done = try_version(commit, home, *arguments, stdin=stdin, **settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


def try_version(
    commit: str, home: Path, *arguments: str, stdin: str = "", **settings: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment_of(commit, home, **settings),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )


class RunningVersion(Running):
    """A service of that version."""

    def __init__(self, commit: str, home: Path, *, token: str = "", **settings: str) -> None:
        self.home, self.token, self.port = home, token, free_port()
        self.log_path = home.parent / f"{home.name}-{self.port}.log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "serve", "--port", str(self.port)],
                env=environment_of(commit, home, **settings),
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        self.await_answer()
