"""Health: what `relaydeck doctor` finds on the machine that serves the page."""

from collections.abc import Sequence
from datetime import UTC, datetime

from relaydeck.console.services import Pages, PageServices
from relaydeck.console.visit import Visit
from relaydeck.console.work import answer_with_result
from relaydeck.doctor.finding import Finding
from relaydeck.http.pipeline import Reply

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
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return visit.page("health_checks.html", findings=worst_first, counts=counts, checked_at=now)
