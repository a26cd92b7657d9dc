"""Runs every check once, in the order of the sections."""

from collections.abc import Callable, Iterator, Sequence

from relaydeck.conformance import rulings, section_2, section_4, section_5_to_9
from relaydeck.conformance.checks import CHECKS, Check, Result
from relaydeck.conformance.probe import Budget, OutOfBudget, Probe, Target
from relaydeck.conformance.verdicts import Differs, NotChecked

# Importing a module registers its checks. Contract checks run first, in the order of the sections: some look at every
# answer so far.
_REGISTERING = (section_2, section_4, section_5_to_9, rulings)
_ORDERED = sorted(CHECKS, key=lambda check: check.basis)


class Report:
    def __init__(self, target: Target, results: list[Result], requests: int) -> None:
        self.target = target
        self.results = results
        self.requests = requests

    @property
    def failed(self) -> list[Result]:
        return [result for result in self.results if result.verdict == "FAILS"]

    def count(self, verdict: str) -> int:
        return sum(result.verdict == verdict for result in self.results)


def conform(
    target: Target,
    budget: Budget | None = None,
    sections: Sequence[str] = (),
    advance: Callable[[], None] = lambda: None,
) -> Report:
    """The checks of these sections, or all. `advance` is called after each check, for a progress bar."""
    probe = Probe(target, budget or Budget())
    try:
        return Report(target, list(_results(probe, checks(sections), advance)), probe.requests)
    finally:
        probe.close()


def checks(sections: Sequence[str] = ()) -> list[Check]:
    return [check for check in _ORDERED if not sections or check.section in sections]


def _results(probe: Probe, chosen: list[Check], advance: Callable[[], None]) -> Iterator[Result]:
    for check in chosen:
        yield _result(check, probe)
        advance()


def _result(check: Check, probe: Probe) -> Result:
    of_contract = check.basis == "contract"
    common = (check.name, check.section, check.basis, check.claim)
    try:
        seen = check.run(probe)
    except NotChecked as reason:
        return Result(*common, "not checked", "", str(reason))
    except OutOfBudget:
        return Result(*common, "not checked", "", "the budget of requests or seconds is used up")
    except Differs as difference:
        verdict = "FAILS" if of_contract else "differs"
        return Result(*common, verdict, difference.expected, difference.seen)  # type: ignore[arg-type]
    if of_contract:
        return Result(*common, "holds", check.claim, seen)
    return Result(*common, "as ruled", seen, seen)
