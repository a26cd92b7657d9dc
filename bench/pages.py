"""Lists of 10, 10,000 and 1,000,000 relayers, first page and last: a page should cost the same in all."""

from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.comparing import Comparison, Side
from bench.homes import Home, make_home
from bench.load import NUMBER, Request, run_load
from bench.memory import memory_row
from bench.processes import Server
from bench.rows import CPU, Row
from bench.run import RELAYERS, Pace, Run, get, started_bare, started_relaydeck
from bench.service import await_quiet
from bench.starts import compare_starts

_PER_PAGE = 10
_AT_MOST_FIRST_OF_TEN = 1.2
_ALLOWED_MEGABYTES = 1024
_FILL_SECONDS = 30e-6  # an item, roughly: for the progress bar


class Served(NamedTuple):
    home: Home
    server: Server

    def page(self, name: str, number: int, *, fresh: bool) -> Side:
        # A query that never comes twice is never answered from a page kept whole.
        query = f"page={number}&n={NUMBER}" if fresh else f"page={number}"
        return Side(name, self.server, get(self.home, f"{RELAYERS}?{query}"))


def expected_seconds(pace: Pace) -> float:
    return 10 * pace.rounds * pace.seconds + 2 * _FILL_SECONDS * pace.large + 6 * pace.starts_of_the_large


def large_home(run: Run) -> Home:
    """Made once: open_for_filling it takes longer than most comparisons."""
    if "large" not in run.kept:
        run.kept["large"] = make_home(
            run.folder / "large",
            signers=10,
            relayers=run.pace.large,
            advance=lambda share: run.advance(share * run.pace.large * _FILL_SECONDS),
        )
    return run.kept["large"]


def measure(run: Run) -> list[Row]:
    large = large_home(run)
    middle = make_home(run.folder / "middle", signers=10, relayers=run.pace.middle)
    small = make_home(run.folder / "small", signers=10, relayers=10)
    with ExitStack() as stack:
        rows = _pages(run, stack, small, middle, large)
    return [*rows, _start_of(run, large)]


def _pages(run: Run, stack: ExitStack, small: Home, middle: Home, large: Home) -> list[Row]:
    served = [Served(home, started_relaydeck(stack, home, RELAYERS)) for home in (small, middle, large)]
    for each in served:
        await_quiet(each.server)
        run.advance(each.home.relayers * _FILL_SECONDS)
    rows = _rows(_compare(run, served, "", fresh=False), served, "") + rendered_pages(run, served)
    bare = started_bare(stack, run.capture("large", served[-1].server, _last_page(large)))
    run_load(run.load, bare.port, _last_page(large), 1)
    await_quiet(served[-1].server)
    return [
        *rows,
        memory_row(run, f"{large.relayers:,} relayers", served[-1].server, bare, _ALLOWED_MEGABYTES),
    ]


def rendered_pages(run: Run, served: list[Served], where: str = "") -> list[Row]:
    """`served` from the shortest list to the longest; `where` appears in each row."""
    return _rows(_compare(run, served, where, fresh=True), served, f"{where}, rendered each time")


def _compare(run: Run, served: list[Served], where: str, *, fresh: bool) -> Comparison:
    first, *others = served
    sides = [first.page("base", 1, fresh=fresh)]
    for each in others:
        sides.append(each.page(_name(each, "first"), 1, fresh=fresh))
        sides.append(each.page(_name(each, "last"), each.home.relayers // _PER_PAGE, fresh=fresh))
    return run.compare(f"pages{where}{' rendered' if fresh else ''}", sides)


def _rows(found: Comparison, served: list[Served], how: str) -> list[Row]:
    rows = []
    for each in served[1:]:
        for page in ("first", "last"):
            name = _name(each, page)
            rows.append(Row(f"{name}{how}", f"first page of 10{how}", CPU, found.cpu(name, "base")))
    # The goal is about the last page of the longest list.
    return [*rows[:-1], rows[-1]._replace(at_most=_AT_MOST_FIRST_OF_TEN)]


def _name(each: Served, page: str) -> str:
    return f"{page} page of {each.home.relayers:,}"


def _last_page(home: Home) -> Request:
    return get(home, f"{RELAYERS}?page={home.relayers // _PER_PAGE}")


def _start_of(run: Run, large: Home) -> Row:
    """With cold caches, requesting the last page first."""
    what = f"start, {large.relayers:,} relayers, last page"
    answer: Path = run.folder / "large.answer"
    return compare_starts(run, what, large, _last_page(large), answer, run.pace.starts_of_the_large)
