"""How many signers were checked and how many failed, for the metrics."""

from typing import NamedTuple

from relaydeck.store.database import ReadRows


class CheckCounts(NamedTuple):
    checked: int
    failing: int
    oldest: int | None  # when the check that is longest ago was made, in seconds


def count_checks(read: ReadRows) -> CheckCounts:
    checked, oldest = read("SELECT count(*), min(checked_at) FROM signer_checks", {})[0]
    failing = read("SELECT count(*) FROM signer_checks WHERE outcome <> 'ok'", {})[0][0]
    return CheckCounts(checked, failing, oldest)
