"""Which of the HTTP server's own messages are logged."""

import json
import logging
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from relaydeck.cli.server import ServerLog
from relaydeck.log import Log

KILLING = "Killing worker-1 after it refused to gracefully stop"
OTHER = "Worker crash loop detected"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "log"


def logged(file: Path, *messages: str) -> list[str]:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    try:
        handler = ServerLog(Log(as_json=True, descriptor=descriptor))
        for message in messages:
            handler.emit(logging.LogRecord("granian", logging.WARNING, "", 0, message, (), None))
    finally:
        os.close(descriptor)
    return [json.loads(line)["event"] for line in file.read_text().splitlines()]


def test_a_worker_that_has_ended_is_not_reported_as_killed(file: Path) -> None:
    assert logged(file, KILLING, OTHER) == [OTHER]


def test_a_worker_that_still_runs_is_reported_as_killed(file: Path) -> None:
    worker = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,), name="granian-worker")
    worker.start()
    try:
        assert logged(file, KILLING, OTHER) == [KILLING, OTHER]
    finally:
        worker.kill()
        worker.join()
