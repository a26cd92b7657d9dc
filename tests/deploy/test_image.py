"""The container image, built from this source and run: not as root, without a writable root file system.

No container engine is needed to run it: namespaces, mounts and `chroot` do what an engine would, with the environment,
user, command and health check that the image declares.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from release import artifacts, image
from tests.support.released import released
from tests.support.running import children, eventually

pytestmark = [pytest.mark.prove, pytest.mark.parallel]

ROOT = Path(__file__).parents[2]
_START = """
set -eu
mount --make-rprivate /
mount --rbind "$ROOT" "$ROOT"
mount --bind "$VOLUME" "$ROOT/var/lib/relaydeck"
mount -o remount,ro,bind "$ROOT"
mount -t proc proc "$ROOT/proc"
ip link set lo up
"""


_LONG_AGO = 1_577_934_245  # on another day than that of any build


class Image(NamedTuple):
    folder: Path  # its root file system
    declared: dict[str, Any]
    moment: int  # which the build was told

    @property
    def config(self) -> dict[str, Any]:
        return cast(dict[str, Any], self.declared["config"])

    @property
    def command(self) -> list[str]:
        return [*self.config["Entrypoint"], *self.config["Cmd"]]


@pytest.fixture(scope="module")
def built() -> Iterator[Image]:
    if archive := released("*-image.tar"):
        name, moment = output("buildah", "pull", "--quiet", f"docker-archive:{archive}"), artifacts.moment_of(ROOT)
    else:
        name, moment = image.IMAGE, _LONG_AGO
        image.Builder(moment).build(ROOT)
    container = output("buildah", "from", "--pull-never", name)
    try:
        folder = Path(output("buildah", "mount", container))
        yield Image(folder, json.loads(output("buildah", "inspect", "--type", "image", name))["Docker"], moment)
    finally:
        output("buildah", "rm", container)


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class Container:
    """A process of the image, as process 1 of its own namespaces."""

    def __init__(self, built: Image, volume: Path) -> None:
        self._built = built
        inside = [*_entered(built), *built.command]
        apart = ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork"]
        with volume.with_name("log").open("ab") as log:
            self._outer = subprocess.Popen(
                [*apart, "sh", "-c", f'{_START}exec "$@"', "sh", *inside],
                env={"PATH": os.environ["PATH"], "ROOT": str(built.folder), "VOLUME": str(volume)},
                stdout=log,
                stderr=log,
            )
        eventually(lambda: bool(children(self._outer.pid)))
        (self.pid,) = children(self._outer.pid)

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        """In the same namespaces, as the same user."""
        entered = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--net"]
        whole = [*entered, *_entered(self._built), *command]
        return subprocess.run(whole, capture_output=True, text=True, timeout=60, check=False)

    def is_healthy(self) -> bool:
        kind, *command = self._built.config["Healthcheck"]["Test"]
        assert kind == "CMD"
        return self.run(*command).returncode == 0

    def stop(self) -> int:
        if self._outer.poll() is None:
            os.kill(self.pid, signal.SIGTERM)
        return self._outer.wait(timeout=60)


def _entered(built: Image) -> Sequence[str]:
    return ["chroot", f"--userspec={built.config['User']}", str(built.folder), "env", "-i", *built.config["Env"]]


@pytest.fixture
def volume(tmp_path: Path, built: Image) -> Path:
    """Empty, with the owner that the image gives it."""
    folder = tmp_path / "volume"
    folder.mkdir(mode=0o700)
    owner = (built.folder / "var/lib/relaydeck").stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    return folder


@pytest.fixture
def container(built: Image, volume: Path) -> Iterator[Container]:
    running = Container(built, volume)
    eventually(running.is_healthy)
    yield running
    running.stop()


def test_it_declares_how_it_runs(built: Image) -> None:
    config = built.config
    declared = [config[name] for name in ("User", "Entrypoint", "Cmd", "StopSignal", "Volumes", "ExposedPorts")]
    ports: dict[str, Any] = {"8080/tcp": {}, "9090/tcp": {}}
    assert declared == ["10001:10001", ["relaydeck"], ["serve"], "SIGTERM", {"/var/lib/relaydeck": {}}, ports]


def test_it_is_not_root_and_writes_to_its_volume_only(container: Container, volume: Path) -> None:
    status = Path(f"/proc/{container.pid}/status").read_text("utf-8")
    assert "Uid:\t10001\t10001\t10001\t10001\n" in status
    refused = container.run("touch", "/opt/relaydeck/new")
    assert (refused.returncode, "Read-only file system" in refused.stderr) == (1, True)
    assert {"relaydeck.db", "master.key"} <= {path.name for path in volume.iterdir()}


def test_it_has_no_installer(built: Image) -> None:
    found = [path.name for path in (built.folder / "opt/relaydeck/bin").iterdir() if path.name.startswith("pip")]
    assert found == []


def test_nothing_in_it_says_when_or_where_it_was_built(built: Image) -> None:
    """Otherwise two builds of a commit would differ, which only `make release` would find, after minutes."""
    told = datetime.fromtimestamp(built.moment, UTC).isoformat().replace("+00:00", "Z")
    assert {each["created"] for each in (built.declared, *built.declared["history"])} == {told}
    files = [path for path in built.folder.rglob("*") if not path.is_symlink()]
    assert {int(path.stat().st_mtime) for path in files} == {built.moment}
    # The second word of a compiled module: 0 if it names the time of its source.
    by_time = [path for path in files if path.suffix == ".pyc" and not any(path.read_bytes()[4:8])]
    assert by_time == []
    accounts = (built.folder / "etc/shadow").read_text("utf-8").splitlines()
    assert {each.split(":")[2] for each in accounts} == {str(built.moment // 86_400)}
    left = [path for path in (built.folder / "var/log").rglob("*") if path.is_file() and path.stat().st_size]
    assert left == []
    copied = [built.folder / "etc" / name for name in ("hostname", "resolv.conf", "hosts", "machine-id")]
    assert [path for path in copied if path.exists() and path.read_text("utf-8")] == []


def test_the_same_image_built_again_is_the_same_archive(tmp_path: Path) -> None:
    """Each build has a container of its own, whose name buildah writes into the image."""
    content = tmp_path / "content"
    content.mkdir()
    (content / "file").write_text("text")
    storage = ("--root", str(tmp_path / "root"), "--runroot", str(tmp_path / "run"))
    archives = [tmp_path / "first", tmp_path / "second"]
    for archive in archives:
        container = output("buildah", *storage, "from", "scratch")
        output("buildah", *storage, "add", container, str(content))
        output("buildah", *storage, "commit", "--format", "docker", "--timestamp", "1", container, archive.name)
        image.Builder(1, storage).save(archive, archive.name)
    assert artifacts.digest_of(archives[0]) == artifacts.digest_of(archives[1])


def test_a_signal_stops_it_and_the_volume_survives(built: Image, volume: Path) -> None:
    first = Container(built, volume)
    eventually(first.is_healthy)
    created = first.run("relaydeck", "token", "create", "kept")
    assert (created.returncode, created.stdout.startswith("rdk_")) == (0, True), created.stderr
    assert first.stop() == 0
    second = Container(built, volume)
    try:
        eventually(second.is_healthy)
        code = (
            "from urllib.request import Request, urlopen; import sys; print(urlopen(Request("
            "'http://127.0.0.1:8080/api/v1/signers', headers={'Authorization': 'Bearer ' + sys.argv[1]})).status)"
        )
        assert second.run("python", "-c", code, created.stdout.split()[0]).stdout == "200\n"
    finally:
        assert second.stop() == 0
