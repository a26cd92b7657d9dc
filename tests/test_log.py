"""The log: what its reader finds after it has fallen behind."""

import json
import os

from relaydeck.log import Log

LINES = 40
LONG = "x" * 1_000_000  # the queue holds eight megabytes


def test_a_reader_that_recovers_is_told_how_many_lines_were_dropped() -> None:
    read_end, write_end = os.pipe()
    log, dropped = Log(as_json=True, descriptor=write_end), list[int]()
    log.dropped = dropped.append
    log.write_in_thread()
    for number in range(LINES):
        log.event("info", LONG, number=number)
    kept = LINES - sum(dropped)
    with open(read_end, "rb") as reader:
        found = [json.loads(reader.readline()) for _ in range(kept + 1)]
    os.close(write_end)
    assert [line["number"] for line in found if line["event"] == LONG] == list(range(kept))
    notes = [(line["level"], line["lines"]) for line in found if line["event"] == "log lines were dropped"]
    assert (notes, 0 < kept < LINES) == ([("warning", LINES - kept)], True)
