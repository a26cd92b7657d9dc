"""Runs the faults, and writes the table in `docs/reliability.md`."""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.proofs.faults.clients import Counts, Crowd
from tests.proofs.faults.diagnosis import Said, Watch, differences, doctor, doctor_afterwards
from tests.proofs.faults.faults import FAULTS, Fault
from tests.proofs.faults.stage import Stage
from tests.support.provenance import here_and_now, region, with_region

PAGE = Path(__file__).parents[3] / "docs" / "reliability.md"
_REGION = "faults"
_COLUMNS = (
    *("fault", "database", "acknowledged", "lost", "failed", "no write for", "no read for", "recovered after"),
    *("probes", "alerts", "doctor", "log", "as expected", "measured"),
)
_BEFORE_DOCTOR = 6.0  # seconds
_LONGEST_CELL = 200


class Outcome(NamedTuple):
    fault: Fault
    counts: Counts
    recovered: float
    said: Said
    after: Sequence[str]  # what `doctor` reports when the fault is over

    @property
    def findings(self) -> list[str]:
        """What differs from what is promised and expected."""
        return [*self._broken(), *differences(self.said, self.after, self.fault.expected)]

    def _broken(self) -> Iterator[str]:
        counts, longest = self.counts, self.fault.longest_gap
        if counts.lost and not self.fault.may_lose:
            yield f"{counts.lost} lost"
        if counts.doubled:
            yield f"{counts.doubled} doubled"
        if counts.failed and self.fault.must_not_fail:
            yield f"{counts.failed} failed"
        if counts.other_statuses:
            yield f"statuses {counts.other_statuses}"
        if longest is not None and counts.writes_gap > longest:
            yield f"no write for {counts.writes_gap:.1f} s"

    @property
    def cells(self) -> list[str]:
        counts, said = self.counts, self.said
        figures = (str(counts.acknowledged), str(counts.lost), str(counts.failed))
        seconds = (f"{each:.1f} s" for each in (counts.writes_gap, counts.reads_gap, self.recovered))
        texts = (
            f"`/readyz` {said.ready}; `/writez` {said.writes}",
            ", ".join(each.removeprefix("Relaydeck") for each in said.alerts) or "none",
            "; ".join(said.doctor) or "ok",
            self._log,
            "; ".join(self.findings) or "yes",
        )
        fault = self.fault
        return [fault.name, fault.engine, *figures, *seconds, *map(_cell, texts), here_and_now().short]

    @property
    def _log(self) -> str:
        """The expected lines first."""
        expected = self.fault.expected.log
        lines = sorted(self.said.log, key=lambda line: not any(re.search(each, line) for each in expected))
        number = "1 line" if self.said.log_lines == 1 else f"{self.said.log_lines} lines"
        return f"{number}: {'; '.join(lines[:2])}" if lines else "nothing"


def _cell(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"


def cause_all(faults: Sequence[Fault]) -> Iterator[Outcome]:
    """Faults that need the same surroundings share them."""
    for surround in dict.fromkeys(each.surround for each in faults):
        with tempfile.TemporaryDirectory(prefix="relaydeck-faults-") as folder, ExitStack() as stack:
            stage = Stage(Path(folder), stack)
            surround(stage)
            yield from (cause(fault, stage) for fault in faults if fault.surround is surround)


def cause(fault: Fault, stage: Stage) -> Outcome:
    patience = 60.0 if fault.must_not_fail else None  # a busy machine may be slow
    with Crowd(stage.operator, stage.ports, stage.token, patience) as crowd, Watch(stage) as watch:
        watch.begin()
        began = time.monotonic()
        with fault.cause(stage):
            time.sleep(max(0.0, began + _BEFORE_DOCTOR - time.monotonic()))
            problems = doctor(stage)
            time.sleep(max(0.0, began + fault.seconds - time.monotonic()))
            said = watch.said(problems)
        recovered = crowd.await_accepted(time.monotonic())
    return Outcome(fault, crowd.count(), recovered, said, doctor_afterwards(stage, fault.expected))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _write(outcomes: Sequence[Outcome]) -> None:
    """Rows of faults that were not caused this time stay."""
    page = PAGE.read_text()
    kept = [line.strip("| ").split(" | ") for line in region(page, _REGION).splitlines() if line.startswith("|")][2:]
    rows = {row[0]: row for row in (*kept, *(each.cells for each in outcomes))}
    lines = [_line(_COLUMNS), _line(["---"] * len(_COLUMNS))]
    lines += [_line(rows[each.name]) for each in FAULTS if each.name in rows]
    PAGE.write_text(with_region(page, _REGION, "\n" + "\n".join(lines) + "\n\n"))


def _chosen(parts: Sequence[str]) -> list[Fault]:
    return [each for each in FAULTS if not parts or any(part in each.name for part in parts)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.faults", description=__doc__)
    parser.add_argument("--fault", action="append", default=[], help="only faults with this in their name; repeatable")
    parser.add_argument("--write", action="store_true", help="write the table to docs/reliability.md")
    options = parser.parse_args()
    began, outcomes = time.monotonic(), []
    for outcome in cause_all(_chosen(options.fault)):
        outcomes.append(outcome)
        print(_line(outcome.cells), *outcome.findings, sep="\n    ")
        print(f"{time.monotonic() - began:.0f} s", *outcome.said.doctor, *outcome.said.log, sep="\n  ", flush=True)
        if options.write:
            _write(outcomes)
    sys.exit(1 if any(each.findings for each in outcomes) else 0)


if __name__ == "__main__":
    main()
