"""`relaydeck estimate`: one fee estimate, step by step. `commands.py` has its options."""

import sys
from typing import Any

from relaydeck.cli.backend import Json
from relaydeck.cli.output import print_json, print_line, print_rows
from relaydeck.cli.target import backend


def explain(relayer_id: str, transaction: str, token: str, as_json: bool) -> None:
    """Print the steps. If the estimate fails, print the steps so far and the reason, and exit with 1."""
    encoded = sys.stdin.read().strip() if transaction == "-" else transaction
    report = backend().relayers.estimate(relayer_id, encoded, token)
    if as_json:
        print_json(report)
    else:
        print_report(report)
    if "error" in report:
        sys.exit(1)


def print_report(report: Json) -> None:
    """The steps, and then the result or the reason why there is none."""
    if report["steps"]:
        print_rows(("step", "fact", "value"), [_rows(facts) for facts in report["steps"]])
        if report["steps"][-1]["step"] == "result":
            print_line(f"estimated fee: {report['steps'][-1]['estimated_fee']} {report['steps'][0]['fee_token']}")
    if failure := report.get("error"):
        print_line(f"no estimate: {failure['code']} {failure['message']}: {failure['description']}")


def _rows(facts: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """The facts of one step, its name on the first line only."""
    step, *rest = facts
    return [(facts[step] if number == 0 else "", name, facts[name]) for number, name in enumerate(rest)]
