"""What a process holds."""

import gc
from pathlib import Path
from types import SimpleNamespace

import pytest

from relaydeck.process_figures import ProcessFigures, open_files, own_process


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
    stated = open_files()
    monkeypatch.setattr(Path, "stat", lambda path: SimpleNamespace(st_size=0))
    assert open_files() == stated


def test_a_system_without_proc_shows_nothing(tmp_path: Path) -> None:
    assert own_process(tmp_path) == ProcessFigures(0, 0)
