"""A report as JSON and as JUnit XML. The table is the command's."""

from typing import Any
from xml.etree import ElementTree

from relaydeck.conformance.run import Report


def as_json(report: Report) -> dict[str, Any]:
    return {
        "url": report.target.url,
        "requests": report.requests,
        "conforms": not report.failed,
        "contract": _counts(report, "contract", {"holds": "holds", "fails": "FAILS"}),
        "rulings": _counts(report, "ruling", {"as_ruled": "as ruled", "differs": "differs"}),
        "results": [result._asdict() for result in report.results],
    }


def _counts(report: Report, basis: str, verdicts: dict[str, str]) -> dict[str, int]:
    results = [result for result in report.results if result.basis == basis]
    named = verdicts | {"not_checked": "not checked"}
    return {name: sum(each.verdict == verdict for each in results) for name, verdict in named.items()}


def as_junit(report: Report) -> str:
    """One suite for each section. A ruling never fails: what it found is in `system-out`."""
    suites = ElementTree.Element("testsuites", name="relaydeck conform")
    for section in dict.fromkeys(result.section for result in report.results):
        _add_suite(suites, section, report)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True)


def _add_suite(suites: ElementTree.Element, section: str, report: Report) -> None:
    results = [result for result in report.results if result.section == section]
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name=f"section {section}",
        tests=str(len(results)),
        failures=str(sum(result.verdict == "FAILS" for result in results)),
        skipped=str(sum(result.verdict == "not checked" for result in results)),
    )
    for result in results:
        case = ElementTree.SubElement(suite, "testcase", classname=result.basis, name=f"{result.name}: {result.claim}")
        if result.verdict == "FAILS":
            failure = ElementTree.SubElement(case, "failure", message=f"expected {_plain(result.expected)}")
            failure.text = _plain(f"expected {result.expected}\nseen {result.seen}")
        elif result.verdict == "not checked":
            ElementTree.SubElement(case, "skipped", message=_plain(result.seen))
        elif result.basis == "ruling":
            ElementTree.SubElement(case, "system-out").text = _plain(f"{result.verdict}: {result.seen}")


def _plain(text: str) -> str:
    """Without the control characters that XML does not allow: a server may answer anything."""
    return "".join(character if character >= " " or character in "\n\t" else "�" for character in text)
