"""A line of the report: what was compared with what, the ratio, and the goal if there is one."""

from typing import NamedTuple

from bench.comparing import Comparison, Ratio

CPU = "server CPU per request"
THROUGHPUT = "requests per second"


class Row(NamedTuple):
    what: str
    against: str
    measure: str
    ratio: Ratio | None  # None: it could not be measured, and `note` says why
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def goal(self) -> str:
        if self.at_most is not None:
            return f"≤ {self.at_most:g}"
        return f"≥ {self.at_least:g}" if self.at_least is not None else ""

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached; None when there is none, or nothing was measured."""
        if self.ratio is None:
            return None
        if self.at_most is not None:
            return self.ratio.middle <= self.at_most
        return None if self.at_least is None else self.ratio.middle >= self.at_least

    @property
    def mark(self) -> str:
        return {True: "✓", False: "✗", None: ""}[self.reached]

    @property
    def shown(self) -> str:
        return "not measured" if self.ratio is None else f"{self.ratio.middle:.2f}"

    @property
    def spread(self) -> str:
        if self.ratio is None or self.ratio.low == self.ratio.high:
            return ""
        return f"{self.ratio.low:.2f} – {self.ratio.high:.2f}"


def cpu_and_throughput(
    what: str, against: str, comparison: Comparison, side: str, base: str, **goal: float
) -> list[Row]:
    """Both measures of one comparison; the goal belongs to the CPU."""
    return [
        Row(what, against, CPU, comparison.cpu(side, base), **goal),  # type: ignore[arg-type]
        Row(what, against, THROUGHPUT, comparison.throughput(side, base)),
    ]
