"""The table on the terminal, and the page under docs/."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.chart import chart
from bench.rows import Row

_COLUMNS = ("what", "against", "measure", "ratio", "middle half", "goal", "")

_PAGE = """# Benchmarks

`make bench` measures these ratios in about twenty minutes and writes this page and its chart.

![Ratios against their goals](benchmarks.svg)

{table}

{notes}## How to read it

Every figure is a ratio: Relaydeck divided by what the column *against* names. Absolute times describe a
machine more than a program, so this page shows none; run the benchmark to see those of your machine.

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
  because the load generator ({load}, 64 connections kept alive) shares the processor with the server.
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


def print_table(console: Console, rows: Sequence[Row], small_print: Sequence[str]) -> None:
    table = Table(*_COLUMNS, title="Relaydeck, as ratios")
    for row in rows:
        colour = {True: "green", False: "red", None: ""}[row.reached]
        table.add_row(*_cells(row), style=colour or None)
    console.print(table)
    for line in small_print:
        console.print(f"[dim]{line}[/dim]", highlight=False)


def write_page(folder: Path, rows: Sequence[Row], load: str) -> None:
    lines = [" | ".join(_COLUMNS), "|".join(["---", "---", "---", "--:", "---", "---", "---"])]
    lines += [" | ".join(_cells(row)) for row in rows]
    table = "\n".join(f"| {line} |" for line in lines)
    notes = "".join(f"- {row.what}, against {row.against}: {row.note}\n" for row in rows if row.note)
    text = _PAGE.format(table=table, notes=f"{notes}\n" if notes else "", load=load)
    (folder / "benchmarks.md").write_text(text, "utf-8")
    (folder / "benchmarks.svg").write_text(chart(rows), "utf-8")


def _cells(row: Row) -> list[str]:
    return [row.what, row.against, row.measure, row.shown, row.spread, row.goal, row.mark]
