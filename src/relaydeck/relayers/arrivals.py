"""Relayers that came or went, by their sequence numbers: what the monitor's schedule has to know."""

from typing import NamedTuple

from relaydeck.store.follower import ReadRows
from relaydeck.store.removals import removed_since


class Arrivals(NamedTuple):
    came: list[int]  # or changed
    went: list[int]


def read_arrivals(read: ReadRows, seen: int, *, removed: bool) -> Arrivals:
    """After revision `seen`; `removed`: records of some table were removed too."""
    # When removals were pruned, the schedule keeps numbers of relayers that are gone: none is found in their turn.
    went = removed_since(read, "relayers", seen) if removed else None
    # The plus keeps the database on the revision's index.
    came = read("SELECT seq FROM relayers WHERE revision > :seen ORDER BY +seq", {"seen": seen})
    return Arrivals([row.seq for row in came], went or [])
