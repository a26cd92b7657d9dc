"""`python -m bench [--quick] [--check] [--only …]`: measure, print the tables, write docs/benchmarks.* and README."""

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from bench import (
    absolute,
    clients,
    commands,
    consoles,
    creates,
    deliveries,
    fees,
    lists,
    memory,
    monitor,
    pages,
    postgresql,
    replicas,
    signer_checks,
    starts,
    tools,
    updates,
)
from bench.absolute import Figure
from bench.load import choose
from bench.processes import ROOT
from bench.report import DATA, Section, print_sections, read_sections, write_all
from bench.rows import Row
from bench.run import FULL, QUICK, Pace, Run
from tests.support.provenance import here_and_now


class Step(NamedTuple):
    title: str
    measure: Callable[[Run], Sequence[Row | Figure]]
    seconds: Callable[[Pace], float]  # roughly, for the progress bar


STEPS = (
    Step("absolute", absolute.measure, absolute.expected_seconds),
    Step("lists", lists.measure, lambda pace: 6 * pace.fresh_seconds),
    Step("signer checks", signer_checks.measure, lambda pace: 3 * pace.fresh_seconds),
    Step("creates", creates.measure, lambda pace: 2 * pace.fresh_seconds),
    Step("monitor", monitor.measure, lambda pace: 4 * pace.fresh_seconds),
    Step("updates", updates.measure, lambda pace: 2 * pace.fresh_seconds),
    Step("estimates", fees.measure, lambda pace: pace.estimates / 6),
    Step("deliveries", deliveries.measure, deliveries.expected_seconds),
    Step("starts", starts.measure, lambda pace: 2 * pace.starts),
    Step("commands", commands.measure, lambda pace: pace.starts),
    Step("clients", clients.measure, clients.expected_seconds),
    Step("memory", memory.measure, lambda pace: 4),
    Step("pages", pages.measure, pages.expected_seconds),
    Step("postgresql", postgresql.measure, postgresql.expected_seconds),
    Step("replicas", replicas.measure, replicas.expected_seconds),
    Step("consoles", consoles.measure, consoles.expected_seconds),  # last: it adds to the large home
)


def main() -> int:
    options = _options()
    # Told to end, it ends as by Ctrl-C: every server is stopped and the folder removed on the way out.
    signal.signal(signal.SIGTERM, _interrupt)
    console = Console()
    folder = _folder()
    try:
        measured = _measure(options.only, QUICK if options.quick else FULL, folder, console)
    except KeyboardInterrupt:
        console.print("interrupted; nothing was written")
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print_sections(console, measured.values())
    options.docs.mkdir(exist_ok=True)
    known = options.docs / DATA
    sections = (read_sections(known.read_text("utf-8")) if known.exists() else {}) | measured
    write_all(options.docs, {step.title: sections[step.title] for step in STEPS if step.title in sections})
    missed = [row for section in measured.values() for row in section.rows if row.reached is False]
    return 1 if options.check and missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds and small lists: does it run at all?")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a goal is missed")
    parser.add_argument(
        "--only", nargs="*", default=[], choices=[step.title for step in STEPS], help="these steps alone"
    )
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="where the page, its chart and its data go")
    return parser.parse_args()


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _folder() -> Path:
    """On a disk rather than in memory, where a sync would cost nothing and prove nothing."""
    parent = Path("/var/tmp")
    return Path(tempfile.mkdtemp(prefix="relaydeck-bench-", dir=parent if parent.is_dir() else None))


def _measure(only: Sequence[str], pace: Pace, folder: Path, console: Console) -> dict[str, Section]:
    steps = [step for step in STEPS if not only or step.title in only]
    columns = (TextColumn("{task.description:12}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    measured: dict[str, Section] = {}
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("tools", total=sum(step.seconds(pace) for step in steps))
        run = Run(pace, choose(tools.find("wrk"), folder), tools.find("nginx"), folder, partial(progress.advance, task))
        done = 0.0
        for step in steps:
            progress.update(task, description=step.title, completed=done)
            measured[step.title] = _section(run, step)
            done += step.seconds(pace)
        progress.update(task, description="done", completed=done)
    return measured


def _section(run: Run, step: Step) -> Section:
    run.small_print.clear()
    try:
        found = step.measure(run)
    except Exception as error:  # what the other steps measured is shown
        found = [Row(step.title, "", "", None, note=f"the step failed: {type(error).__name__}: {error}")]
    rows = [each for each in found if isinstance(each, Row)]
    figures = [each for each in found if isinstance(each, Figure)]
    load = f"{run.load.name}{', in short rounds (`--quick`)' if run.pace is QUICK else ''}"
    return Section(here_and_now(), load, rows, figures, list(run.small_print))


if __name__ == "__main__":
    sys.exit(main())
