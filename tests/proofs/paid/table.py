"""The table of docs/fee-estimate.md: estimated against paid, by kind and node."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from tests.proofs.paid.suite import Outcome
from tests.support.provenance import here_and_now, with_region

PAGE = Path(__file__).parents[3] / "docs" / "fee-estimate.md"
REGION = "paid"
Outcomes = dict[str, list[Outcome]]  # by node


def close_share(outcomes: Sequence[Outcome]) -> Decimal:
    succeeded = [each for each in outcomes if each.succeeded]
    return Decimal(100) * sum(each.is_close for each in succeeded) / len(succeeded)


def faults(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Estimates that are missing, or more than 2 % too low."""
    return [each for each in outcomes if each.succeeded and (each.estimated is None or each.percent < -2)]


def written(found: Outcomes) -> str:
    return "".join([f"Measured {here_and_now()}:\n\n", *_summary(found), "\n", *_kinds(found)])


def write(found: Outcomes) -> None:
    PAGE.write_text(with_region(PAGE.read_text(), REGION, written(found)))


def _summary(found: Outcomes) -> list[str]:
    rows = [
        "| node | sent | succeeded | of these within ±2 % of what was paid | lowest | highest | no estimate |\n",
        "|---|---|---|---|---|---|---|\n",
    ]
    rows += [_sums(node, outcomes) for node, outcomes in found.items()]
    return [*rows, _sums("all", [each for outcomes in found.values() for each in outcomes])]


def _sums(node: str, outcomes: Sequence[Outcome]) -> str:
    succeeded = [each for each in outcomes if each.succeeded]
    percents = [each.percent for each in succeeded if each.estimated is not None]
    missing = sum(each.estimated is None for each in succeeded)
    lowest, highest = _shown(min(percents)), _shown(max(percents))
    counts = f"{len(outcomes)} | {len(succeeded)}"
    return f"| {node} | {counts} | {close_share(outcomes):.1f} % | {lowest} | {highest} | {missing} |\n"


def _kinds(found: Outcomes) -> list[str]:
    nodes = list(found)
    rows = [f"| kind | {' | '.join(nodes)} |\n", "|---|" + "---|" * len(nodes) + "\n"]
    named = {node: {each.kind: each for each in _worst_last(outcomes)} for node, outcomes in found.items()}
    kinds = list(dict.fromkeys(each.kind for outcomes in found.values() for each in outcomes))
    for kind in kinds:
        if not kind.startswith("random"):
            rows.append(f"| {kind} | {' | '.join(_cell(named[node].get(kind)) for node in nodes)} |\n")
    return rows


def _worst_last(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """A kind that was sent several times is shown by its worst estimate."""
    return sorted((each for each in outcomes if each.succeeded), key=lambda each: abs(each.percent))


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return "–"
    return "no estimate" if outcome.estimated is None else _shown(outcome.percent)


def _shown(percent: Decimal) -> str:
    text = f"{percent:+.2f}"
    return "0 %" if text in ("+0.00", "-0.00") else f"{text} %"
