"""The table on the terminal, and the page under docs/."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.chart import chart
from bench.rows import Row

_COLUMNS = ("what", "against", "measure", "ratio", "middle half", "goal", "")

_PAGE = """# Benchmarks

Printed by `make bench`, which takes less than ten minutes and writes this page and its chart.

![Ratios against their goals](benchmarks.svg)

{table}

{notes}## How to read it

Every figure is a ratio: Relaydeck over what stands beside it in the row. Absolute times say more about a
machine than about a program, so none are shown; run it yourself to see those of yours.

- **Sides take turns.** Each comparison runs its sides one after another in slices of a second, at least
  seven times over in a full run, every other round in reverse order. The ratio is formed within a
  round, and the median over the rounds is shown; half of all rounds lie within *middle half*.
  Lists and creates start their servers anew every few rounds: how a process happens to lie in memory
  stays with it for its life, and no single start shall decide.
- **Server CPU per request** is user and system time of the server and its children, divided by the
  requests answered. It is the first measure because the load generator ({load}, 64 connections kept
  alive) shares the processor with the server; *requests per second* stands beside it.
- **Relaydeck** runs as it is served by default: one worker, the credential checked, the rate limit on
  (and never reached), a log line for each request written to a file, metrics counted, ten items of
  about 400 bytes a page.
- **The bare application** runs on the same server with the same settings. It answers the very same
  bytes, headers included, and looks at nothing. For creates it decodes the same body and commits one
  plain row, grouped with whatever waits and synced just as ours is: no credential, no sealing, no
  identifier, no log.
- **nginx** serves the same body and headers from a file, its own log off.
- **Pages** are asked for once everything is warm. *Put together anew each time* means a query that
  never comes twice, so that no page kept whole from an earlier request can answer it.
- **Events** go to fifty receivers, each a port of its own, from a service of its own for each side. Half
  of them belong to relayers, ten to a receiver, and wait for one another; half stand in no line. They
  are written in batches every hundredth of a second by a process beside the service. The highest rate
  is measured first, with always 400 on their way; both sides then get half of it. Latency counts from
  the commit to the first arrival, at the same 35 receivers on both sides. A ratio below one means that
  the bad ones, which soon get one try at a time, left the others more room than healthy ones do.
- **PostgreSQL** is a server on the same machine that syncs each commit, with the very records of the SQLite side,
  copied. Lists are compared with two workers on each side. A start counts from the command to the first answer.
- **Replicas** are two services with homes of their own on one PostgreSQL. A signer is created through one, and the
  other is asked for it again and again, from the moment the create was answered; they change roles each time.
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
