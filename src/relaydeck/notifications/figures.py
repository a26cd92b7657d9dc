"""How the post stands, for those who watch it. Looked up when asked: a few steps in an index each."""

from typing import NamedTuple

from relaydeck.notifications.outbox import ReadRows

COUNTED_UP_TO = 100_000  # a look stays cheap however much has gone wrong

_COUNTED = "SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE state = :state LIMIT :most) AS counted"


class Figures(NamedTuple):
    recorded: int  # events, from the first one ever
    pending: int
    dead: int
    oldest_pending: int | None  # when its event happened, in seconds


def read_figures(read: ReadRows) -> Figures:
    # Numbers are given without gaps, so the last one is their count, whatever was removed since.
    recorded: int | None = read("SELECT max(seq) FROM events", {})[0][0]
    pending, dead = (read(_COUNTED, {"state": state, "most": COUNTED_UP_TO})[0][0] for state in ("pending", "dead"))
    return Figures(recorded or 0, pending, dead, _oldest_pending(read))


def _oldest_pending(read: ReadRows) -> int | None:
    rows = read(
        "SELECT e.created_at FROM deliveries d JOIN events e ON e.seq = d.seq WHERE d.state = 'pending'"
        " ORDER BY d.seq LIMIT 1",
        {},
    )
    return rows[0][0] if rows else None
