"""Runs every check once, in the order of the sections, puts back what they changed, and reports."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple
from xml.etree import ElementTree

from relaydeck.conformance import contract_checks, rulings
from relaydeck.conformance.exchange import Budget, OutOfBudget, Refused, Target, Unreachable
from relaydeck.conformance.probe import CHECKS, Basis, Check, Probe
from relaydeck.conformance.shapes import DidNotOccur, Differs, NotChecked

# Importing a module registers its checks. Contract checks run first, in the order of the sections. Those that look at
# every answer run last.
_REGISTERING = (contract_checks, rulings)
_ORDERED = sorted(CHECKS, key=lambda check: (check.looks_back, check.basis, check.section[0]))


Verdict = Literal["holds", "FAILS", "as ruled", "differs", "not checked", "did not occur"]
_VERDICTS: dict[Basis, tuple[Verdict, Verdict]] = {"contract": ("holds", "FAILS"), "ruling": ("as ruled", "differs")}


class Result(NamedTuple):
    """`verdict`: a contract check holds or fails; a ruling is followed or not, which fails nothing."""

    name: str
    section: str
    basis: Basis
    claim: str
    verdict: Verdict
    expected: str
    seen: str
    options: tuple[str, ...] = ()  # that would allow a check that was not made


class Report:
    """`left`: what the run created or could not put back."""

    def __init__(self, target: Target, results: list[Result], probe: Probe, left: list[str]) -> None:
        self.target = target
        self.results = results
        self.requests = probe.requests
        self.unanswered = probe.unanswered
        self.created_signers = [_clean(each, probe) for each in probe.created_ids]
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
        left = probe.put_back()
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
    chosen = tuple(f"{each}." for each in sections)
    return [check for check in _ORDERED if not sections or f"{check.section}.".startswith(chosen)]


def _results(probe: Probe, chosen: list[Check], advance: Callable[[], None]) -> Iterator[Result]:
    is_stopped = False
    for check in chosen:
        result = Result(*check[:4], "not checked", "", "the run was interrupted")
        try:
            result = result if is_stopped else _result(check, probe)
        except KeyboardInterrupt:
            is_stopped = True
        yield result
        advance()


def _result(check: Check, probe: Probe) -> Result:
    kept, broken = _VERDICTS[check.basis]
    probe.basis = check.basis
    result = partial(Result, *check[:4])
    try:
        seen = _clean(check.run(probe) or "as expected", probe)
    except NotChecked as reason:
        return result("not checked", "", _clean(str(reason), probe), reason.options)
    except OutOfBudget as reason:
        return result("not checked", "", "the budget of requests or seconds is used up", reason.args)
    except DidNotOccur as reason:
        return result("did not occur", "", str(reason))
    except RecursionError:
        return result(broken, check.claim, "a value that is too deeply nested")
    except Differs as difference:
        return result(broken, _clean(difference.expected, probe), _clean(difference.seen, probe))
    return result(kept, check.claim if check.basis == "contract" else seen, seen)


def _clean(text: str, probe: Probe, longest: int = 300) -> str:
    """Short, and without control characters and credentials: a server may answer anything."""
    for token in filter(None, (probe.target.token, probe.target.readonly_token)):
        text = text.replace(token, "<token>")
    shown = "".join(each if each.isprintable() else "�" for each in text[:longest])
    return shown if len(text) <= longest else f"{shown}…"


def as_json(report: Report) -> dict[str, Any]:
    return {
        "url": report.target.url,
        "verdict": report.verdict,
        "conforms": report.verdict == "conforms",
        "requests": report.requests,
        "unanswered": report.unanswered,
        "contract": _counts(report, "contract", {"holds": "holds", "fails": "FAILS"}),
        "rulings": _counts(report, "ruling", {"as_ruled": "as ruled", "differs": "differs"}),
        "missing_options": report.missing(),
        "created_signers": report.created_signers,
        "not_put_back": report.left,
        "results": [result._asdict() for result in report.results],
    }


def _counts(report: Report, basis: str, verdicts: dict[str, str]) -> dict[str, int]:
    named = verdicts | {"not_checked": "not checked", "did_not_occur": "did not occur"}
    return {name: report.count(verdict, basis) for name, verdict in named.items()}


def as_junit(report: Report, *, strict: bool) -> str:
    """One suite for each section. A ruling never fails: what it found is in `system-out`.

    With `strict` a contract check that was not made is a failure.
    """
    suites = ElementTree.Element("testsuites", name=f"relaydeck conform: {report.verdict}")
    failed = report.failed + (report.unchecked if strict else [])
    for section in dict.fromkeys(result.section for result in report.results):
        _add_suite(suites, section, [each for each in report.results if each.section == section], failed)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True)


def _add_suite(suites: ElementTree.Element, section: str, results: list[Any], failed: list[Any]) -> None:
    skipped = [each for each in results if each.verdict in ("not checked", "did not occur") and each not in failed]
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name=f"section {section}",
        tests=str(len(results)),
        failures=str(sum(each in failed for each in results)),
        skipped=str(len(skipped)),
    )
    for result in results:
        case = ElementTree.SubElement(suite, "testcase", classname=result.basis, name=f"{result.name}: {result.claim}")
        if result in failed:
            failure = ElementTree.SubElement(case, "failure", message=f"expected {result.expected or result.claim}")
            failure.text = f"expected {result.expected or result.claim}\nseen {result.seen}"
        elif result in skipped:
            ElementTree.SubElement(case, "skipped", message=f"{result.verdict}: {result.seen}")
        elif result.basis == "ruling":
            ElementTree.SubElement(case, "system-out").text = f"{result.verdict}: {result.seen}"
