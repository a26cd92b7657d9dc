"""Writes that cannot reach the disk fail with the described body; lists serve on; all recovers by itself."""

import errno
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from relaydeck.cli.server import _fresh_metrics
from relaydeck.http.metric_counts import Metrics
from relaydeck.log import Log
from relaydeck.settings.model import Settings
from tests.contract.test_section_7_errors import disk_that_takes_nothing
from tests.proofs.small_disk import small_disk
from tests.support import shapes
from tests.support.running import Running, free_port, run_command
from tests.support.seeding import fill, issue, relayer

pytestmark = [pytest.mark.prove, pytest.mark.parallel]

SIGNERS = "/api/v1/signers"
NOTIFICATION = "/api/v1/notifications/pager"


def prepare(home: Path) -> str:
    fill(home, notifications={"pager": "a key"}, relayers=[relayer("one")])
    return issue(home)


def go_through(running: Running, broken: Callable[[], AbstractContextManager[object]]) -> None:
    """The whole story: it works, the disk fails, it works again without a restart."""
    assert running.ask("POST", SIGNERS, shapes.request("plain", id="before")).status == 201
    before = running.ask("GET", SIGNERS).json
    with broken():
        for attempt in range(20):
            answer = running.ask("POST", SIGNERS, shapes.request("plain", id=f"during-{attempt}"))
            assert (answer.status, answer.json) == (500, shapes.SERVER_FAILURE)
            answer = running.ask("PATCH", NOTIFICATION, {"signing_key": "x" * 100})
            assert (answer.status, answer.json) == (500, shapes.SERVER_FAILURE)
            assert running.ask("GET", SIGNERS).json == before
            assert running.ask("GET", "/api/v1/relayers").json["pagination"]["total_items"] == 1
            assert running.ask("GET", "/healthz").status == 200
    after = running.ask("POST", SIGNERS, shapes.request("plain", id="after"))
    assert (after.status, after.json["data"]["id"]) == (201, "after")
    assert running.ask("PATCH", NOTIFICATION, {"signing_key": ""}).json["data"]["has_signing_key"] is False
    assert [signer["id"] for signer in running.ask("GET", SIGNERS).json["data"]] == ["ops", "before", "after"]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_files_that_cannot_grow(home: Path, workers: str) -> None:
    with Running(home, "--workers", workers, token=prepare(home)) as running:
        go_through(running, lambda: disk_that_takes_nothing(running))


@contextmanager
def filled_up(folder: Path) -> Iterator[None]:
    """Not a byte left."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError as error:
            assert error.errno == errno.ENOSPC
    try:
        yield
    finally:
        filler.unlink()


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """Where no small disk may be made, files that cannot grow stand in for it."""
    with small_disk(tmp_path / "disk") as mounted:
        home = tmp_path / "disk" / "home"
        running = Running(home, token=prepare(home), log_level="error")
        try:
            go_through(running, lambda: filled_up(tmp_path / "disk") if mounted else disk_that_takes_nothing(running))
        finally:
            code = running.stop()
        assert code == 0


@contextmanager
def read_only(home: Path) -> Iterator[None]:
    """Nothing in the home may be written; for users whom the kernel does not let through everywhere."""
    modes = {path: path.stat().st_mode for path in [home, *home.rglob("*")]}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def test_a_start_on_a_full_disk_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as mounted:
        home = tmp_path / "disk" / "home"
        prepare(home)
        with filled_up(tmp_path / "disk") if mounted else read_only(home):
            done = run_command(home, "serve", "--port", str(free_port()))
        assert (done.returncode, done.stderr.count("\n") <= 2, "Traceback" in done.stderr) == (1, True, False)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_service_that_ends_on_a_full_disk_starts_again(tmp_path: Path, end: str) -> None:
    """Where no small disk may be made, it ends and starts on one that is not full."""
    with small_disk(tmp_path / "disk") as mounted:
        home = tmp_path / "disk" / "home"
        running = Running(home, token=prepare(home))
        listed = running.ask("GET", "/api/v1/signers").json
        with filled_up(tmp_path / "disk") if mounted else nullcontext():
            running.stop() if end == "stop" else running.kill()
            running = Running(home, token=running.token, log_level="error")
            try:
                assert running.ask("GET", "/api/v1/signers").json == listed
            finally:
                code = running.stop()
        assert code == 0


def test_a_restart_on_a_full_disk_keeps_its_metrics_in_memory(tmp_path: Path) -> None:
    """Where no small disk may be made, a folder that is not there stands in for it."""
    with small_disk(tmp_path / "disk") as mounted:
        settings = Settings(home=tmp_path / "disk")
        if mounted:
            settings.run_folder.mkdir()
        with filled_up(tmp_path / "disk") if mounted else nullcontext():
            path = _fresh_metrics(settings, 2, Log(as_json=True, level="error"))
        try:
            assert path.parent == Path("/dev/shm")
            for _ in range(3):  # two workers and the operations port: none of them makes the file grow
                size = path.stat().st_size
                Metrics(path).claim_row()
                assert path.stat().st_size == size
        finally:
            path.unlink()
