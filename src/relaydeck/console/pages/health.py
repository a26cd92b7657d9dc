"""Health: what `relaydeck doctor` finds on the machine that serves the page."""

import time
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from relaydeck.console.formats import visible, with_moments
from relaydeck.console.live import answer_with_result
from relaydeck.console.page_request import PageRequest, get
from relaydeck.console.rendering import ROOT
from relaydeck.doctor import Finding
from relaydeck.http.pipeline import Reply
from relaydeck.quantities import counted
from relaydeck.timestamps import utc

_WORST_FIRST = ("FAIL", "warn", "ok")
# The commands that remarks name, with the page that does the same.
_PAGES = {
    "run 'relaydeck signer check ID'": ("check the signers that fail", "/signers?check=failing"),
    "run 'relaydeck relayer why ID'": ("see why", "/relayers?state=disabled"),
    "run 'relaydeck token create NAME'": ("create a token", "/tokens"),
    "run 'relaydeck token revoke NAME'": ("revoke tokens", "/tokens"),
    "run 'relaydeck token list'": ("see the tokens", "/tokens"),
    "'relaydeck event replay --all-dead'": ("Deliveries", "/deliveries/replay"),
    "see 'relaydeck event deliveries --state pending'": ("see the deliveries that wait", "/deliveries?state=pending"),
}


@get("/health", "run_doctor")
async def show(request: PageRequest) -> Reply:
    return request.page("health.html")


@get("/health/checks", "run_doctor")
async def show_checks(request: PageRequest) -> Reply:
    return await answer_with_result(request, request.services.examination, lambda found: _findings_page(request, found))


def _findings_page(request: PageRequest, found: Sequence[Finding]) -> Reply:
    worst_first = sorted(found, key=lambda each: _WORST_FIRST.index(each.result))
    counts = {result: sum(each.result == result for each in found) for result in _WORST_FIRST}
    counted_up = summary(counts["FAIL"], counts["warn"], len(found))
    now = utc(time.time())
    values: dict[str, Any] = {"findings": worst_first, "counts": counts, "summary": counted_up, "checked_at": now}
    values["with_links"] = with_links
    return request.page("health_checks.html", is_live=False, **values)


def with_links(remark: str) -> Markup:
    """The remark with links to pages in place of commands that do the same."""
    text = escape(visible(remark))
    for command, (words, path) in _PAGES.items():
        text = text.replace(escape(command), Markup('<a href="{}{}">{}</a>').format(ROOT, path, words))
    return with_moments(text)


def summary(failed: int, doubtful: int, total: int) -> str:
    if failed:
        more = f", {counted(doubtful, 'more needs', 'more need')} a look" if doubtful else ""
        return f"{failed} of {counted(total, 'check')} failed{more}."
    if doubtful:
        return f"{doubtful} of {counted(total, 'check')} {'needs' if doubtful == 1 else 'need'} a look."
    return f"All {counted(total, 'check')} passed."
