"""Runs every check once, in the order of the sections, and puts back what they changed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from relaydeck.conformance import rulings, section_2, section_4, section_5_to_9
from relaydeck.conformance.checks import CHECKS, Check, Result
from relaydeck.conformance.probe import Budget, OutOfBudget, Probe, Refused, Target, Unreachable
from relaydeck.conformance.samples import put_back
from relaydeck.conformance.shapes import DidNotOccur, Differs, NotChecked

# Importing a module registers its checks. Contract checks run first, in the order of the sections. Those that look at
# every answer run last.
_REGISTERING = (section_2, section_4, section_5_to_9, rulings)
_ORDERED = sorted(CHECKS, key=lambda check: (check.looks_back, check.basis))


class Report:
    """`left`: what the run created or could not put back."""

    def __init__(self, target: Target, results: list[Result], probe: Probe, left: list[str]) -> None:
        self.target = target
        self.results = results
        self.requests = probe.requests
        self.unanswered = probe.unanswered
        self.created_signers = [_clean(each, probe) for each in probe.created]
        self.left = [_clean(each, probe, longest=5000) for each in left]

    @property
    def verdict(self) -> Literal["conforms", "does not conform", "incomplete"]:
        """Evidence against the contract decides. Otherwise every chosen contract check must have been made."""
        if self.failed or self.unanswered:
            return "does not conform"
        checked = self.count("holds")
        return "conforms" if checked and not self.unchecked else "incomplete"

    @property
    def failed(self) -> list[Result]:
        return [result for result in self.results if result.verdict == "FAILS"]

    @property
    def unchecked(self) -> list[Result]:
        """Contract checks that could have been made, and were not."""
        return [each for each in self.results if each.basis == "contract" and each.verdict == "not checked"]

    def missing(self, basis: str = "") -> list[str]:
        """The options that would let more checks be made."""
        chosen = [each for each in self.results if basis in ("", each.basis)]
        return list(dict.fromkeys(option for result in chosen for option in result.options))

    def count(self, verdict: str, basis: str = "") -> int:
        return sum(each.verdict == verdict and basis in ("", each.basis) for each in self.results)


def conform(
    target: Target,
    budget: Budget | None = None,
    sections: Sequence[str] = (),
    advance: Callable[[], None] = lambda: None,
) -> Report:
    """The checks of these sections, or all. `advance` is called after each check, for a progress bar.

    Ctrl-C ends the checks, not the report. Raises Unreachable or Refused when the first request gets no response, or
    is refused.
    """
    probe = Probe(target, budget or Budget())
    _list_once(probe)
    results: list[Result] = []
    try:
        results.extend(_results(probe, checks(sections), advance))
    finally:
        left = put_back(probe)
    return Report(target, results, probe, left)


def _list_once(probe: Probe) -> None:
    probe.basis = "contract"
    try:
        _ = probe.signers
    except Differs as difference:
        raise Unreachable(difference.seen.removeprefix("none: ")) from None
    except NotChecked:
        raise Refused from None


def checks(sections: Sequence[str] = ()) -> list[Check]:
    """`4` stands for all of 4.1 to 4.5."""
    return [check for check in _ORDERED if not sections or any(_is_in(check.section, each) for each in sections)]


def _is_in(section: str, chosen: str) -> bool:
    return section == chosen or section.startswith(f"{chosen}.")


def _results(probe: Probe, chosen: list[Check], advance: Callable[[], None]) -> Iterator[Result]:
    stopped = ""
    for check in chosen:
        try:
            yield _result(check, probe) if not stopped else _unchecked(check, stopped)
        except KeyboardInterrupt:
            stopped = "the run was interrupted"
            yield _unchecked(check, stopped)
        advance()


def _result(check: Check, probe: Probe) -> Result:
    of_contract = check.basis == "contract"
    probe.basis = check.basis
    common = (check.name, check.section, check.basis, check.claim)
    try:
        seen = _clean(check.run(probe) or "as expected", probe)
    except NotChecked as reason:
        return _unchecked(check, _clean(str(reason), probe), reason.options)
    except DidNotOccur as reason:
        return Result(*common, "did not occur", "", str(reason))
    except OutOfBudget as reason:
        return _unchecked(check, "the budget of requests or seconds is used up", reason.args)
    except RecursionError:
        return Result(*common, "FAILS" if of_contract else "differs", check.claim, "a value that is too deeply nested")
    except Differs as difference:
        expected, found = _clean(difference.expected, probe), _clean(difference.seen, probe)
        return Result(*common, "FAILS" if of_contract else "differs", expected, found)
    if of_contract:
        return Result(*common, "holds", check.claim, seen)
    return Result(*common, "as ruled", seen, seen)


def _unchecked(check: Check, reason: str, options: tuple[str, ...] = ()) -> Result:
    return Result(check.name, check.section, check.basis, check.claim, "not checked", "", reason, options)


def _clean(text: str, probe: Probe, longest: int = 300) -> str:
    """Short, and without control characters and credentials: a server may answer anything."""
    for token in filter(None, (probe.target.token, probe.target.readonly_token)):
        text = text.replace(token, "<token>")
    shown = "".join(each if each.isprintable() else "�" for each in text[:longest])
    return shown if len(text) <= longest else f"{shown}…"
