"""The table of what was explored, as it is printed and as `docs/reliability.md` has it."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.proofs.explore.boundary import KINDS
from tests.proofs.explore.explorer import Tally, kinds_of
from tests.proofs.explore.operations import OPERATIONS, by_name
from tests.support.provenance import here_and_now, region, with_region

PAGE = Path(__file__).parents[3] / "docs" / "reliability.md"
Tallies = Mapping[tuple[str, str], Tally]  # by engine and operation
_Rows = dict[tuple[str, str], list[str]]
_COUNTS = ("faults tried", *KINDS, "acknowledged", "findings")
_COLUMNS = ("operation", "database", "boundary calls", "each call", *_COUNTS, "measured")
_REGION = "explored"


def table(tallies: Tallies) -> str:
    return _table(_rows(tallies))


def _rows(tallies: Tallies) -> _Rows:
    return {place: _row(*place, tally) for place, tally in tallies.items() if tally.runs}


def _row(engine: str, name: str, tally: Tally) -> list[str]:
    by_kind = [tally.by_kind[kind] for kind in KINDS]
    coverage = tally.coverage(kinds_of(by_name(name), engine))
    figures = (tally.faults, *by_kind, tally.acknowledged, len(tally.findings))
    return [name, engine, str(tally.calls), coverage, *map(str, figures), here_and_now().short]


def _table(rows: _Rows) -> str:
    sums = [sum(int(row[column]) for row in rows.values()) for column in range(4, 4 + len(_COUNTS))]
    return "\n".join(map(_line, [_COLUMNS, ["---"] * len(_COLUMNS), *rows.values(), ["all", "", "", "", *sums, ""]]))


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def write(tallies: Tallies) -> None:
    """Put the rows of this run in the page; rows of what was not explored this time stay."""
    page = PAGE.read_text()
    found = _read(region(page, _REGION)) | _rows(tallies)
    names = [each.name for each in OPERATIONS]
    ordered = {place: found[place] for place in sorted(found, key=lambda place: (names.index(place[1]), place[0]))}
    PAGE.write_text(with_region(page, _REGION, f"\n{_table(ordered)}\n\n"))


def _read(text: str) -> _Rows:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {(row[1], row[0]): row for row in rows if any(row[0] == each.name for each in OPERATIONS)}
