"""What a process holds."""

import gc
from pathlib import Path
from types import SimpleNamespace

import pytest

from relaydeck.process.figures import (
    MemoryLimit,
    ProcessFigures,
    connections_within,
    open_files,
    own_memory_limit,
    own_process,
)


def test_a_process_holds_memory_and_files() -> None:
    figures = own_process()
    assert figures.resident_bytes > 1_000_000
    assert figures.open_files >= 3


def test_every_open_file_is_counted(tmp_path: Path) -> None:
    gc.collect()  # what it would close later
    before = open_files()
    with (tmp_path / "one").open("w"), (tmp_path / "two").open("w"):
        assert open_files() == before + 2
    assert open_files() == before


def test_an_older_kernel_does_not_state_the_number_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()  # what it would close later
    stated = open_files()
    monkeypatch.setattr(Path, "stat", lambda path: SimpleNamespace(st_size=0))
    assert open_files() == stated


def test_a_system_without_proc_shows_nothing(tmp_path: Path) -> None:
    assert own_process(tmp_path) == ProcessFigures(0, 0)


def cgroup_files(root: Path, own: str, files: dict[str, str]) -> Path:
    """A machine on which a process has these cgroups."""
    for name, text in (
        {"proc/self/cgroup": own} | {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    ).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


NEWER = {
    "memory.max": "max",
    "system.slice/memory.max": "3000000",
    "system.slice/relaydeck.service/memory.max": "4000000",
    "system.slice/relaydeck.service/memory.events": "low 0\noom 9\noom_kill 2\noom_group_kill 0\n",
}
OLDER = {
    "memory/memory.limit_in_bytes": "9223372036854771712",
    "memory/docker/memory.limit_in_bytes": "5000000",
    "memory/docker/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
}


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/system.slice/relaydeck.service\n", NEWER, MemoryLimit(3_000_000, 2)),
        ("0::/\n", {"memory.max": "max", "memory.events": "oom_kill 0\n"}, MemoryLimit(None, 0)),
        ("4:memory:/docker\n1:cpu,cpuacct:/\n0::/\n", OLDER, MemoryLimit(5_000_000, 3)),
        ("4:memory:/seen/from/outside\n", {"memory/memory.limit_in_bytes": "7000000"}, MemoryLimit(7_000_000, 0)),
        ("0::/\n", {}, MemoryLimit(None, 0)),
    ],
)
def test_the_least_limit_of_the_cgroups_of_a_process_applies(
    tmp_path: Path, own: str, files: dict[str, str], expected: MemoryLimit
) -> None:
    assert own_memory_limit(root=cgroup_files(tmp_path, own, files)) == expected


def test_a_system_without_cgroups_has_no_limit(tmp_path: Path) -> None:
    assert own_memory_limit(root=tmp_path) == MemoryLimit(None, 0)


@pytest.mark.parametrize(
    ("files", "connections"), [(100, 64), (256, 64), (1024, 768), (4096, 3840), (20_800, 16_384), (524_288, 16_384)]
)
def test_connections_leave_files_for_everything_else(files: int, connections: int) -> None:
    assert connections_within(files) == connections
