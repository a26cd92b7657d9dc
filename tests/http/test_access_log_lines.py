"""The lines of a batch of requests, each of which differs from the one before it in one field."""

import json
import os
from asyncio import AbstractEventLoop, new_event_loop
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relaydeck.http.access_log import AccessLog, Record
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.request import ClientAddress
from relaydeck.log import Log

FIRST: Record = (1_800_000_000.0, "list_signers", 200, 1_500_999, b"one", '"ops"', ("10.0.0.1", 40_000), None, "", 0)
LINE = {
    "time": "2027-01-15T08:00:00.000Z",
    "level": "info",
    "event": "request",
    "request_id": "one",
    "route": "list_signers",
    "status": 200,
    "duration_us": 1500,
    "token": "ops",
    "client": "10.0.0.1",
}


@pytest.fixture
def loop() -> Iterator[AbstractEventLoop]:
    loop = new_event_loop()
    yield loop
    loop.close()


@pytest.mark.parametrize(
    ("place", "value", "shown"),
    [
        (0, 1_800_000_000.0015, {"time": "2027-01-15T08:00:00.001Z"}),
        (1, "list_relayers", {"route": "list_relayers"}),
        (2, 429, {"status": 429}),
        (3, 7_000, {"duration_us": 7}),
        (4, b"two", {"request_id": "two"}),
        (5, '"dev"', {"token": "dev"}),
        (6, ("10.0.0.2", 40_000), {"client": "10.0.0.2"}),
        (8, 'a "reason"', {"reason": 'a "reason"'}),
    ],
)
def test_a_line_shows_what_differs_from_the_line_before(
    tmp_path: Path, loop: AbstractEventLoop, place: int, value: Any, shown: dict[str, Any]
) -> None:
    changed = (*FIRST[:place], value, *FIRST[place + 1 :])
    descriptor = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    access_log = AccessLog(
        Log(as_json=True, descriptor=descriptor), Metrics(tmp_path / "metrics"), ClientAddress(()), loop
    )
    for record in (FIRST, changed, FIRST):
        access_log.add(record)
    access_log.flush()
    os.close(descriptor)
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert lines == [LINE, LINE | shown, LINE]
