"""Sides measured in turn, in short slices, and compared pair by pair.

A machine that others use too speeds up and slows down by the second. Two slices right after one another
mostly meet the same weather, so their ratio holds where neither figure does; the median of many such
ratios is what is reported, and their quartiles show how far it can be trusted.
"""

from collections.abc import Callable, Sequence
from statistics import median, quantiles
from typing import NamedTuple

from bench.load import Load, Request
from bench.processes import Server


class Side(NamedTuple):
    name: str
    server: Server
    request: Request


class Slice(NamedTuple):
    cpu_us: float  # server CPU per request
    per_second: float


class Ratio(NamedTuple):
    middle: float
    low: float
    high: float


def ratio_of(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """The median of each first over its second, with the quartiles."""
    ratios = [ours / theirs for ours, theirs in pairs if theirs > 0]
    if len(ratios) < 2:
        only = ratios[0] if ratios else float("nan")
        return Ratio(only, only, only)
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    return Ratio(median(ratios), low, high)


class Comparison:
    """What each side did in each round."""

    def __init__(self, rounds: Sequence[dict[str, Slice]]) -> None:
        self._rounds = rounds

    @classmethod
    def together(cls, parts: Sequence["Comparison"]) -> "Comparison":
        return cls([each for part in parts for each in part._rounds])

    def cpu(self, side: str, base: str) -> Ratio:
        return ratio_of([(each[side].cpu_us, each[base].cpu_us) for each in self._rounds])

    def throughput(self, side: str, base: str) -> Ratio:
        return ratio_of([(each[side].per_second, each[base].per_second) for each in self._rounds])

    def lines(self) -> list[str]:
        """The figures of this machine at this moment, for the small print."""
        return [
            f"{side}: {median(each[side].cpu_us for each in self._rounds):.1f} µs CPU, "
            f"{median(each[side].per_second for each in self._rounds):,.0f}/s"
            for side in self._rounds[0]
        ]


def alternate(
    load: Load, sides: Sequence[Side], *, rounds: int, seconds: float, advance: Callable[[], None]
) -> Comparison:
    for side in sides:
        load.run(side.server.port, side.request, 1)  # not counted: nobody's first requests are
    measured = []
    for number in range(rounds):
        # Every other round goes the other way, so that being first favours no side.
        order = sides if number % 2 == 0 else list(reversed(sides))
        measured.append({side.name: _slice(load, side, seconds) for side in order})
        advance()
    return Comparison([{side.name: each[side.name] for side in sides} for each in measured])


def _slice(load: Load, side: Side, seconds: float) -> Slice:
    before = side.server.cpu_seconds()
    done = load.run(side.server.port, side.request, seconds)
    used = side.server.cpu_seconds() - before
    return Slice(used * 1e6 / max(done.requests, 1), done.requests / done.seconds)
