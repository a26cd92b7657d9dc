"""Fails each call of an operation in turn, and counts what was tried."""

import random
import sys
import time
from collections import Counter
from collections.abc import Collection
from itertools import count
from typing import NamedTuple

from tests.proofs.explore import state
from tests.proofs.explore.boundary import Fault
from tests.proofs.explore.faulted_run import FaultedRun, Reference, read_state_of, task_of
from tests.proofs.explore.homes import Homes, steps_of
from tests.proofs.explore.operations import Operation

_LOG_SHOWN = 5_000  # characters, of a run with findings


class Finding(NamedTuple):
    """Something that must not happen, and how to see it again."""

    engine: str
    operation: str
    fault: Fault | None
    problem: str

    def __str__(self) -> str:
        fault = "no fault" if self.fault is None else f"call {self.fault.number}, {self.fault.kind}"
        return f"{self.engine}, {self.operation}, {fault}: {self.problem}"


class Tally:
    """What was tried of one operation on one engine."""

    def __init__(self) -> None:
        self.runs = 0
        self.calls = 0  # of a run without a fault
        self.by_kind: Counter[str] = Counter()
        self.acknowledged = 0
        self.findings: list[Finding] = []
        self.tried: set[str] = set()  # the kinds that every number was tried with
        self.met: set[Fault] = set()

    @property
    def faults(self) -> int:
        return sum(self.by_kind.values())

    def coverage(self, kinds: Collection[str]) -> str:
        """Whether each call of the run without a fault failed in each of these ways; see `docs/reliability.md`."""
        if not self.tried >= set(kinds):
            return "no"
        if not self.calls:
            return "none"
        is_each_met = self.met >= {Fault(number, kind) for number in range(1, self.calls + 1) for kind in kinds}
        return "yes" if is_each_met else "varies"

    def add(self, other: "Tally") -> None:
        self.runs += other.runs
        self.calls = max(self.calls, other.calls)
        self.by_kind += other.by_kind
        self.acknowledged += other.acknowledged
        self.findings += other.findings
        self.tried |= other.tried
        self.met |= other.met


def kinds_of(operation: Operation, engine: str) -> list[str]:
    """A file completes a call or fails it; only a server can complete one and lose the answer."""
    return [kind for kind in operation.kinds if kind != "lost" or engine == "PostgreSQL"]


class Explorer:
    def __init__(self, homes: Homes, bug: str = "") -> None:
        self._homes = homes
        self._bug = bug
        self._references: dict[str, Reference] = {}
        self._reference_calls: dict[str, int] = {}

    def explore(self, operation: Operation, kind: str, tally: Tally, end: float) -> None:
        """Fail call 1, 2, 3 … in one way, until a run meets no fault, or the monotonic clock reaches `end`."""
        for number in count(1):
            if time.monotonic() > end:
                return
            is_met = self.try_one(operation, Fault(number, kind), tally)
            if not is_met and number > self._calls(operation):  # some calls are made in the background, or are not
                tally.tried.add(kind)
                return

    def explore_by_chance(self, operation: Operation, dice: random.Random, tally: Tally) -> None:
        number = dice.randint(1, max(self._calls(operation), 1))
        self.try_one(operation, Fault(number, dice.choice(kinds_of(operation, self._homes.engine))), tally)

    def _calls(self, operation: Operation) -> int:
        self._reference(operation)
        return self._reference_calls[operation.name]

    def try_one(self, operation: Operation, fault: Fault | None, tally: Tally) -> bool:
        """Run once; False when no call met the fault."""
        reference = self._reference(operation)  # before: on PostgreSQL the next home has the same database
        with self._homes.fresh(operation) as home:
            run = FaultedRun(self._homes, home, operation, fault, self._bug, reference)
            run.judge()
            if run.problems:
                print(f"{operation.name}, {fault}: {run.problems}\n{run.output[-_LOG_SHOWN:]}", file=sys.stderr)
        tally.runs += 1
        tally.calls = self._calls(operation)
        tally.acknowledged += run.acknowledged
        if run.met and fault is not None:
            tally.by_kind[fault.kind] += 1
            tally.met.add(fault)
        tally.findings += [Finding(self._homes.engine, operation.name, fault, each) for each in run.problems]
        return bool(run.met)

    def _reference(self, operation: Operation) -> Reference:
        """Without faults and bugs."""
        if operation.name not in self._references:
            with self._homes.fresh(operation) as home:
                found, bodies, revision = [read_state_of(home, operation)], [], state.revision_of(home.open())
                for first in (True, False):
                    steps = list(steps_of(home, task_of(self._homes, home, operation, None, "")))
                    answered = [each for each in steps if each["step"] == "answer"]
                    assert not first or [each["status"] for each in answered] == [operation.done], (
                        operation.name,
                        steps,
                        (home.folder / "output").read_text(),
                    )
                    calls = next(len(each["calls"]) for each in steps if each["step"] == "end")
                    self._reference_calls.setdefault(operation.name, calls)
                    found.append(read_state_of(home, operation))
                    bodies += [each["body"] for each in answered]
            self._references[operation.name] = Reference(found[0], found[1], found[2], bodies[0], revision)
        return self._references[operation.name]
