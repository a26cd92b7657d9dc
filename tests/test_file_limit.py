"""How the limit on open files is divided between connections, other files and the recovery from running out."""

import resource

import pytest

from relaydeck.file_limit import FileLimit, choose_file_limit

UNLIMITED = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("hard", "tls", "chosen"),
    [
        (1024, False, FileLimit(1024, 768, 4096, 0)),
        (1024, True, FileLimit(704, 448, 256, 320)),
        (256, True, FileLimit(128, 64, 64, 128)),
        (524_288, False, FileLimit(20_800, 16_384, 4096, 0)),
        (524_288, True, FileLimit(16_640, 16_384, 4096, 4160)),
        (UNLIMITED, True, FileLimit(16_640, 16_384, 4096, 4160)),
    ],
)
def test_connections_leave_files_for_everything_else(hard: int, tls: bool, chosen: FileLimit) -> None:
    assert choose_file_limit(hard, tls=tls) == chosen


@pytest.mark.parametrize("hard", [256, 1024, 4096, 65_536])
def test_over_tls_more_files_are_kept_back_than_connections_wait(hard: int) -> None:
    limit = choose_file_limit(hard, tls=True)
    assert limit.kept_back > limit.queued
