"""Relayers that came or went, by their sequence numbers: what the monitor's schedule has to know."""

from typing import NamedTuple

from relaydeck.store.follower import ReadRows


class Arrivals(NamedTuple):
    came: list[int]  # or changed
    went: list[int]


def read_arrivals(read: ReadRows, seen: int, *, removed: bool) -> Arrivals:
    """After revision `seen`; `removed`: records of some table were removed too."""
    went = []
    if removed:
        went = read("SELECT seq FROM removals WHERE revision > :seen AND resource = 'relayers'", {"seen": seen})
    # The plus keeps the database on the revision's index.
    came = read("SELECT seq FROM relayers WHERE revision > :seen ORDER BY +seq", {"seen": seen})
    return Arrivals([row[0] for row in came], [row[0] for row in went])
