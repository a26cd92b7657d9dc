"""The short form of `python -m tests.proofs.generated_requests`."""

import pytest

from tests.proofs.generated_requests import operations, run
from tests.support.lengths import times

REQUESTS = times(10_000, short=4_000)


@pytest.mark.prove
@pytest.mark.parallel
@pytest.mark.parametrize("engine", ["SQLite", "PostgreSQL"])
def test_generated_requests_get_only_documented_answers(engine: str) -> None:
    report = run(engine, seed=7, first=0, count=REQUESTS)
    assert report.problems == []
    assert report.statuses.total() == REQUESTS
    assert len(report.operations) >= len(operations()) - 4  # the rare ones may be missing
    warm, last = report.memory[len(report.memory) // 2], report.memory[-1]
    assert last < 1.1 * warm, report.memory
