"""Which of the HTTP server's own messages are logged, and what it is told again that it may have missed."""

import json
import logging
import multiprocessing
import os
import time
from pathlib import Path

import pytest
from granian import Granian

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
        handler = ServerLog(Log(as_json=True, descriptor=descriptor), file.with_name("metrics"))
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


@pytest.fixture
def server_log(file: Path, monkeypatch: pytest.MonkeyPatch) -> ServerLog:
    """Of a server with two workers, the second of which has been killed. Its main loop does not run."""
    monkeypatch.setattr("relaydeck.cli.server._MISSED_SECONDS", 0)
    with file.open("wb") as lines:
        server_log = ServerLog(Log(as_json=True, descriptor=lines.fileno()), file.with_name("metrics"), 2)
        server_log.server = Granian("relaydeck", workers=2)
        message = "Unexpected exit from worker-2"
        server_log.emit(logging.LogRecord("_granian", logging.ERROR, "", 0, message, (), None))
    return server_log


def told(server_log: ServerLog) -> tuple[list[int], bool]:
    """The workers that the main loop shall replace, and whether it is woken."""
    assert server_log.server is not None
    return server_log.server.interrupt_children, server_log.server.main_loop_interrupt.is_set()


def test_a_death_that_the_server_missed_is_repeated(server_log: ServerLog) -> None:
    assert told(server_log) == ([], False)
    server_log.remind()
    assert told(server_log) == ([1], True)


def test_a_death_that_the_server_has_noticed_is_not_repeated(server_log: ServerLog) -> None:
    server_log.emit(logging.LogRecord("_granian", logging.INFO, "", 0, "Respawning worker-2", (), None))
    server_log.remind()
    assert told(server_log) == ([], False)


def test_a_death_for_which_the_server_was_not_woken_wakes_it(server_log: ServerLog) -> None:
    assert server_log.server is not None
    server_log.server.interrupt_children.append(1)
    server_log.remind()
    assert told(server_log) == ([1], True)


def test_a_stop_that_the_server_missed_is_repeated(server_log: ServerLog) -> None:
    server_log.stopping.set()
    server_log.remind()
    assert told(server_log) == ([], True)
