"""A report as JSON and as JUnit XML. The table is the command's."""

from typing import Any
from xml.etree import ElementTree

from relaydeck.conformance.run import Report


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
