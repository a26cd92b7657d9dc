"""The data of the runs, and what is written from it: the table on the terminal, the page, its chart, README's sentence.

A run measures some of the sections; those of earlier runs stay as they are. Each section says when it was measured,
with which version and on which machine.
"""

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from bench.absolute import Figure
from bench.chart import chart
from bench.comparing import Ratio
from bench.rows import CPU, Row
from tests.support.provenance import Provenance, with_region

DATA, PAGE, CHART = "benchmarks.json", "benchmarks.md", "benchmarks.svg"
REGION = "bench"  # of README.md
_RATIO_COLUMNS = ("what", "against", "measure", "ratio", "middle half", "goal", "")
_FIGURE_COLUMNS = ("what", "requests a second", "p50", "p99", "one client: p50", "one client: p99")

_PAGE = """# Benchmarks

`make bench` measures these figures in about half an hour. It writes this page, its chart, the sentence in the README,
and the data behind them (`benchmarks.json`). `--only` measures some sections again; each says when it was measured.

## One worker

{figures}

## Ratios

![Ratios against their goals](benchmarks.svg)

{ratios}

{notes}{small_print}## How to read it

- **Absolute figures** describe a machine more than a program: run the benchmark to see those of yours. Each is the
  median of several servers, measured for a few seconds each, with 64 clients and then with one. A client sends its next
  request when it has the answer, so with 64 clients the latency is mostly the time in the queue of the one worker.
- **A ratio** is Relaydeck divided by what the column *against* names.
- **The sides alternate.** Each comparison measures its sides in slices of a second, for seven rounds or more,
  and reverses the order in every other round. Where each side has a server of its own, the load of each is
  paused and resumed, so that such a slice consists of ten turns of a tenth of a second: the speed of a shared
  machine changes from one second to the next. Each round gives one ratio. The table shows the median of
  the rounds, and *middle half* the range that half of them fall in. Lists and creates restart their servers
  every few rounds, because the memory layout of a process affects its speed for as long as it runs. Lists,
  creates, updates and estimates wait until the service has finished what a start does in the background;
  *first fee estimate* and *start* do not.
- **Server CPU per request** is the user and system time of the server and its children, divided by the
  number of responses. What a server does while its load is paused counts, too. This measure comes first
  because the load generator (64 connections kept alive) shares the processor with the server.
  *Requests per second* is the second measure.
- **Relaydeck** runs with its default settings: one worker, the credential checked, the rate limit on
  (and never reached), a log line for each request written to a file, metrics counted, and pages of ten
  items of about 400 bytes.
- **The bare application** runs on the same server with the same settings. It sends the same bytes,
  headers included, and does not read the request. For creates it decodes the same body and commits one
  plain row. Its commits are grouped and synced as Relaydeck's are. It checks no credential, seals nothing,
  makes no identifier and writes no log.
- **nginx** serves the same body and headers from a file, with its log switched off.
- **Estimates** are compared with a bare call: the question that the estimate asks its node, over a kept
  connection. The bare proxy receives the same request as Relaydeck on the same server, passes that question
  on and returns the answer.
- **Pages** are measured after a warm-up. In the rows *rendered each time* no query occurs twice, so no
  response can come from a page that an earlier request rendered.
- **Events** go to fifty receivers on separate ports. Each side has its own service. Half of the events belong
  to relayers, ten relayers to a receiver, and are delivered in order; the other half have no order. A process
  beside the service writes them in batches every hundredth of a second. The highest rate is measured first,
  with 400 events under way at any time; both sides then receive half of that rate. Latency is the time
  from the commit to the first arrival, at the same 35 receivers on both sides. A ratio below one means that
  the failing receivers, which soon get one attempt at a time, used less capacity than healthy ones would.
- **PostgreSQL** runs on the same machine, syncs each commit, and holds a copy of the records of the SQLite side.
  Lists are compared with two workers on each side. A start is the time from the command to the first response.
- **Replicas** are two services with separate homes on one PostgreSQL. A signer is created through one of them; the
  other is then queried until it shows the signer. They change roles each time.
- **Memory** is the resident memory of the worker process after load, minus the bare application's.
"""


class Section(NamedTuple):
    """What one step of a run measured."""

    provenance: Provenance
    load: str
    rows: list[Row]
    figures: list[Figure]
    small_print: list[str]

    @property
    def source(self) -> str:
        return f"Measured {self.provenance}, with {self.load}"


Sections = Mapping[str, Section]  # by the title of the step


def read_sections(text: str) -> dict[str, Section]:
    return {title: _section(content) for title, content in json.loads(text).items()}


def write_sections(sections: Sections) -> str:
    """As JSON, a row to a line."""
    found = []
    for title, section in sections.items():
        content = section._asdict() | {"provenance": section.provenance._asdict()}
        content["rows"] = [row._asdict() | {"ratio": row.ratio and _rounded(row.ratio)} for row in section.rows]
        content["figures"] = [_rounded(figure) for figure in section.figures]
        lines = ",\n".join(f"  {json.dumps(name)}: {_lines(value)}" for name, value in content.items())
        found.append(f"{json.dumps(title)}: {{\n{lines}\n }}")
    return "{\n " + ",\n ".join(found) + "\n}\n"


def _rounded(values: Ratio | Figure) -> dict[str, Any]:
    return {name: round(each, 4) if isinstance(each, float) else each for name, each in values._asdict().items()}


def _lines(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value, ensure_ascii=False)
    return "[\n" + ",\n".join(f"   {json.dumps(each, ensure_ascii=False)}" for each in value) + "\n  ]"


def _section(content: dict[str, Any]) -> Section:
    rows = [Row(**each | {"ratio": each["ratio"] and Ratio(**each["ratio"])}) for each in content["rows"]]
    figures = [Figure(**each) for each in content["figures"]]
    return Section(Provenance(**content["provenance"]), content["load"], rows, figures, content["small_print"])


def print_sections(console: Console, sections: Iterable[Section]) -> None:
    for section in sections:
        if section.figures:
            _print(console, _FIGURE_COLUMNS, [(_figure_cells(each), "") for each in section.figures])
        colours = {True: "green", False: "red", None: ""}
        _print(console, _RATIO_COLUMNS, [(_ratio_cells(row), colours[row.reached]) for row in section.rows])
        for line in section.small_print:
            console.print(f"[dim]{line}[/dim]", highlight=False)


def _print(console: Console, columns: Sequence[str], rows: Sequence[tuple[Sequence[str], str]]) -> None:
    table = Table(*columns)
    for cells, colour in rows:
        table.add_row(*cells, style=colour or None)
    if rows:
        console.print(table)


def write_all(docs: Path, sections: Sections) -> None:
    data = write_sections(sections)
    sections = read_sections(data)  # all is written from the data, to the last digit
    (docs / DATA).write_text(data, "utf-8")
    (docs / PAGE).write_text(page(sections), "utf-8")
    (docs / CHART).write_text(chart(_all_rows(sections)), "utf-8")
    readme = docs.parent / "README.md"
    if readme.is_file() and (sentence := readme_sentence(sections)):
        readme.write_text(with_region(readme.read_text("utf-8"), REGION, sentence), "utf-8")


def page(sections: Sections) -> str:
    notes = "".join(f"- {row.what}, against {row.against}: {row.note}\n" for row in _all_rows(sections) if row.note)
    return _PAGE.format(
        figures=_captioned(sections, _figure_table),
        ratios=_captioned(sections, _ratio_table),
        notes=f"{notes}\n" if notes else "",
        small_print=_small_print([line for each in sections.values() for line in each.small_print]),
    )


def _all_rows(sections: Sections) -> list[Row]:
    return [row for section in sections.values() for row in section.rows]


def _captioned(sections: Sections, table: Any) -> str:
    """Sections of one run, one after another, share their caption and table."""
    with_content = [section for section in sections.values() if table([section])]
    groups = [(source, table(list(group))) for source, group in groupby(with_content, lambda each: each.source)]
    return "\n\n".join(f"{source}:\n\n{content}" for source, content in groups) or "Not measured yet."


def _figure_table(sections: Sequence[Section]) -> str:
    figures = [_figure_cells(figure) for section in sections for figure in section.figures]
    return _table(_FIGURE_COLUMNS, ["---", *["--:"] * 5], figures) if figures else ""


def _ratio_table(sections: Sequence[Section]) -> str:
    rows = [_ratio_cells(row) for section in sections for row in section.rows]
    return _table(_RATIO_COLUMNS, ["---", "---", "---", "--:", "---", "---", "---"], rows) if rows else ""


def _table(columns: Sequence[str], alignment: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, alignment, *rows))


def _ratio_cells(row: Row) -> list[str]:
    return [row.what, row.against, row.measure, row.shown, row.spread, row.goal, row.mark]


def _figure_cells(figure: Figure) -> list[str]:
    latencies = (figure.p50, figure.p99, figure.alone_p50, figure.alone_p99)
    return [figure.what, f"{figure.per_second:,.0f}", *(f"{each:.2f} ms" for each in latencies)]


def _small_print(lines: Sequence[str]) -> str:
    listed = "\n".join(f"- {line}" for line in lines)
    return f"## Figures behind the ratios\n\n{listed}\n\n" if lines else ""


def readme_sentence(sections: Sections) -> str:
    """Empty while one of its figures is not measured."""
    measured = [sections[title] for title in ("absolute", "lists") if title in sections]
    rates = {figure.what.partition(",")[0]: figure.per_second for section in measured for figure in section.figures}
    more = [percent for section in measured for row in section.rows for percent in _more_cpu(row)]
    lists = [rate for name, rate in rates.items() if name.startswith("list-")]
    if not more or not lists or "create-signer" not in rates:
        return ""
    sources = ". ".join(dict.fromkeys(section.source for section in measured))
    text = (
        f"- **Fast.** One worker answered {' to '.join(dict.fromkeys(map(_hundreds, sorted(lists))))} lists and"
        f" {_hundreds(rates['create-signer'])} durable creates a second, the load generator on the same cores. A list"
        f" cost {_range(more)} % more CPU than the bare HTTP server returning the same bytes."
        f" {sources} ([benchmarks](docs/benchmarks.md))."
    )
    return textwrap.fill(text, 118, subsequent_indent="  ", break_on_hyphens=False) + "\n"


def _more_cpu(row: Row) -> list[int]:
    """Than the bare application, in percent; none of any other row."""
    is_meant = row.measure == CPU and row.against.startswith("bare application")
    return [round((row.ratio.middle - 1) * 100)] if is_meant and row.ratio else []


def _hundreds(rate: float) -> str:
    return f"{round(rate, -2):,.0f}"


def _range(percents: Sequence[int]) -> str:
    low, high = min(percents), max(percents)
    return f"{low}" if low == high else f"{low} to {high}"
