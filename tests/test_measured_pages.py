"""Measured figures on pages are those of the run that they cite, with its day, version and machine."""

import re
from pathlib import Path

import pytest

from bench.absolute import Figure
from bench.chart import chart
from bench.comparing import Ratio
from bench.load import Count, read_wrk
from bench.report import Section, page, read_sections, readme_sentence, write_all, write_sections
from bench.rows import CPU, Row
from tests.support import mutation_page
from tests.support.provenance import Provenance, here_and_now, region, with_region

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SECTIONS = read_sections((DOCS / "benchmarks.json").read_text("utf-8"))
RUN = Provenance("2026-01-02", "0.1.0 (abcdef1)", "a machine")
LATER = RUN._replace(date="2026-01-03")
FIGURES = [
    Figure("list-relayers, 10 items", 20_049.0, 3.1, 4.25, 0.1, 0.2),
    Figure("create-signer, answered after the sync", 5051.0, 11.0, 22.0, 1.0, 2.0),
]
ROWS = [
    Row("list-signers", "bare application, same server, same bytes", CPU, Ratio(1.34, 1.31, 1.38), at_most=1.33),
    Row("list-relayers", "bare application, same server, same bytes", CPU, Ratio(1.27, 1.26, 1.3), at_most=1.33),
    Row("list-relayers", "nginx, same bytes from a file", CPU, Ratio(4.0, 3.9, 4.1)),
]
ABSOLUTE = Section(RUN, "wrk", [], FIGURES, [])
LISTS = Section(RUN, "wrk", ROWS, [], ["list-signers, ours: 40.0 µs CPU"])

PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]
MEASURED = ("bench", "explored", "faults", "mutants", "paid")  # regions that programs write, with measured figures
BEGINNING = re.compile(rf"^<!-- ({'|'.join(MEASURED)}): written by", re.MULTILINE)
REGIONS = [(path, name) for path in PAGES for name in BEGINNING.findall(path.read_text("utf-8"))]
WHEN = r"20\d\d-\d\d-\d\d, (?:version )?\d+\.\d+\.\d+"
# Words of somebody who tells what a stopwatch said. `growth.md` plans with such figures, and says so.
TOLD = re.compile(
    r"\d µs\b|\btook (?:about )?[\da]|\bmeasured (?:on|at|so far|with)\b"
    r"|\b(?:busy|idle) machine\b|\bload (?:average )?of \d"
)

WRK = """Running 3s test @ http://127.0.0.1:8080
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     3.76ms    2.00ms  25.79ms   80.00%
    Req/Sec    12.93k     1.00k   14.00k    70.00%
  Latency Distribution
     50%  987.00us
     75%    4.15ms
     90%    9.00ms
     99%    1.02s
  38656 requests in 3.00s, 150.00MB read
Requests/sec:  12885.33
"""


def test_the_page_of_benchmarks_is_the_one_of_its_data() -> None:
    assert (DOCS / "benchmarks.md").read_text("utf-8") == page(SECTIONS)


def test_the_chart_is_the_one_of_the_data() -> None:
    rows = [row for section in SECTIONS.values() for row in section.rows]
    assert (DOCS / "benchmarks.svg").read_text("utf-8") == chart(rows)


def test_the_sentence_of_the_readme_is_the_one_of_the_data() -> None:
    assert region((ROOT / "README.md").read_text("utf-8"), "bench") == readme_sentence(SECTIONS) != ""


def test_every_operation_has_figures() -> None:
    assert [each.what.partition(",")[0] for each in SECTIONS["absolute"].figures] == [
        "list-signers",
        "list-relayers",
        "create-signer",
        "update-notification",
        "fee estimate",
    ]


def test_data_is_read_as_it_was_written() -> None:
    sections = {"absolute": ABSOLUTE, "lists": LISTS}
    assert read_sections(write_sections(sections)) == sections


def test_the_sentence_cites_the_run_of_each_figure() -> None:
    one = readme_sentence({"absolute": ABSOLUTE, "lists": LISTS})
    assert " ".join(one.split()) == (
        "- **Fast.** One worker answered 20,000 lists and 5,100 durable creates a second, the load generator on the"
        " same cores. A list cost 27 to 34 % more CPU than the bare HTTP server returning the same bytes."
        " Measured 2026-01-02, version 0.1.0 (abcdef1), on a machine, with wrk ([benchmarks](docs/benchmarks.md))."
    )
    two = readme_sentence({"absolute": ABSOLUTE, "lists": LISTS._replace(provenance=LATER)})
    assert re.findall(r"2026-01-\d\d", two) == ["2026-01-02", "2026-01-03"]


def test_there_is_no_sentence_without_a_figure() -> None:
    assert readme_sentence({"lists": LISTS}) == readme_sentence({"absolute": ABSOLUTE}) == ""


def test_sections_of_another_run_have_a_caption_of_their_own() -> None:
    creates = Section(LATER, "wrk", ROWS[2:], [], [])
    assert re.findall(r"^Measured (\S+),", page({"lists": LISTS, "creates": LISTS}), re.MULTILINE) == ["2026-01-02"]
    text = page({"lists": LISTS, "creates": creates})
    assert re.findall(r"^Measured (\S+),", text, re.MULTILINE) == ["2026-01-02", "2026-01-03"]


def test_all_is_written_beside_the_readme(tmp_path: Path) -> None:
    docs, readme = tmp_path / "docs", tmp_path / "README.md"
    docs.mkdir()
    readme.write_text("a\n<!-- bench: written -->\nold\n<!-- /bench -->\nb\n")
    sections = {"absolute": ABSOLUTE, "lists": LISTS}
    write_all(docs, sections)
    assert readme.read_text("utf-8") == (f"a\n<!-- bench: written -->\n{readme_sentence(sections)}<!-- /bench -->\nb\n")
    assert (docs / "benchmarks.md").read_text("utf-8") == page(sections)


def test_a_region_that_is_missing_is_an_error() -> None:
    with pytest.raises(ValueError, match="the page has no region bench"):
        with_region("nothing", "bench", "text")


def test_what_wrk_counted() -> None:
    assert read_wrk(WRK) == Count(38_656, (0.987, 1020.0))


@pytest.mark.parametrize("line", ["  Non-2xx or 3xx responses: 1", "  Socket errors: connect 0, read 1"])
def test_a_refused_request_under_load_is_an_error(line: str) -> None:
    with pytest.raises(RuntimeError, match="requests were refused under load"):
        read_wrk(f"{WRK}{line}\n")


def test_where_a_figure_comes_from() -> None:
    date, version, machine = here_and_now()
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", date)
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev0)?( \([0-9a-f]{7,}(-dirty)?\))?", version)
    assert re.fullmatch(r".+, \d+ cores, Linux \S+, Python 3\.\d+\.\d+\S*", machine)


@pytest.mark.parametrize(("path", "name"), REGIONS, ids=[name for _, name in REGIONS])
def test_every_measured_table_says_when_it_was_measured_and_with_which_version(path: Path, name: str) -> None:
    text = region(path.read_text("utf-8"), name)
    if not re.search(rf"Measured\s+{WHEN}", " ".join(text.split())):
        columns, _, *rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
        place = columns.index("measured")
        assert [row for row in rows if row[0] != "all" and not re.match(WHEN, row[place])] == []
        assert rows != []


def test_every_such_table_is_on_a_page() -> None:
    assert sorted(name for _, name in REGIONS) == sorted(MEASURED)


@pytest.mark.parametrize("path", [each for each in PAGES if each.name != "growth.md"], ids=lambda path: path.name)
def test_no_page_tells_a_figure_that_no_program_wrote(path: Path) -> None:
    text = path.read_text("utf-8")
    for name in BEGINNING.findall(text):
        text = with_region(text, name, "")
    assert [line for line in text.splitlines() if TOLD.search(line) and path.name != "benchmarks.md"] == []


MUTATED = mutation_page.read_rows(mutation_page.PAGE.read_text("utf-8"))


@pytest.mark.parametrize("module", MUTATED)
def test_the_results_of_mutation_testing_are_those_of_the_present_code(module: str) -> None:
    """If not: `make mutate` for this module, or remove its row."""
    row = MUTATED[module]
    assert row.code == mutation_page.digest(module)
    assert int(row.mutants) == int(row.detected) + int(row.survived)


def test_rows_of_mutants_are_read_as_they_were_written() -> None:
    text = f"<!-- mutants: x -->\n{mutation_page.table(list(MUTATED.values()))}<!-- /mutants -->\n"
    assert mutation_page.read_rows(text) == MUTATED != {}


@pytest.mark.parametrize("path", sorted((DOCS / "decisions").glob("0*.md")), ids=lambda path: path.name)
def test_a_decision_says_when_it_was_recorded(path: Path) -> None:
    assert re.search(r"^\*Recorded 20\d\d-\d\d-\d\d\.", path.read_text("utf-8"), re.MULTILINE)
