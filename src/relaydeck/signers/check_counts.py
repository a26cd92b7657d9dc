"""How many signers were checked and how many failed, for the metrics."""

from typing import NamedTuple

from relaydeck.store.database import ReadRows


class CheckCounts(NamedTuple):
    checked: int
    failing: int
    oldest: int | None  # when the check that is longest ago was made, in seconds


def count_checks(read: ReadRows) -> CheckCounts:
    (every,) = read("SELECT count(*) AS checked, min(checked_at) AS oldest FROM signer_checks", {})
    (bad,) = read("SELECT count(*) AS failing FROM signer_checks WHERE outcome <> 'ok'", {})
    return CheckCounts(every.checked, bad.failing, every.oldest)
