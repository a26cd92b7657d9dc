"""Health: what `relaydeck doctor` finds on the machine that serves the page."""

import time
from collections.abc import Sequence

from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.console.work import answer_with_result
from relaydeck.doctor.finding import Finding
from relaydeck.http.pipeline import Reply
from relaydeck.quantities import counted
from relaydeck.timestamps import utc

_WORST_FIRST = ("FAIL", "warn", "ok")


def pages(services: PageServices) -> Pages:
    async def show_checks(visit: Visit) -> Reply:
        return await answer_with_result(
            visit, services.examination, lambda found: _findings_page(visit, found), services.is_stopping
        )

    return {"/health": {"GET": show}, "/health/checks": {"GET": show_checks}}


async def show(visit: Visit) -> Reply:
    return visit.page("health.html")


def _findings_page(visit: Visit, found: Sequence[Finding]) -> Reply:
    worst_first = sorted(found, key=lambda each: _WORST_FIRST.index(each.result))
    counts = {result: sum(each.result == result for each in found) for result in _WORST_FIRST}
    counted_up = summary(counts["FAIL"], counts["warn"], len(found))
    now = utc(time.time())
    return visit.page("health_checks.html", findings=worst_first, counts=counts, summary=counted_up, checked_at=now)


def summary(failed: int, doubtful: int, total: int) -> str:
    if failed:
        more = f", {counted(doubtful, 'more needs', 'more need')} a look" if doubtful else ""
        return f"{failed} of {counted(total, 'check')} failed{more}."
    if doubtful:
        return f"{doubtful} of {counted(total, 'check')} {'needs' if doubtful == 1 else 'need'} a look."
    return f"All {counted(total, 'check')} passed."
