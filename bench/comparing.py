"""Sides measured in turn, in short slices, and compared pair by pair.

A machine that others use too speeds up and slows down by the second. Two slices right after one another
mostly meet the same weather, so their ratio holds where neither figure does; the median of many such
ratios is what is reported, and their quartiles show how far it can be trusted. Where each side has a server of its
own, the sides take turns of a tenth of a second, so that each round of a side meets the same weather as the others'.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import median, quantiles
from typing import NamedTuple

from bench.load import Done, Load, Loading, Request, run_load
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


_TURN_SECONDS = 0.1
_LONGEST_ROUND = 600  # seconds, after which a load ends by itself unless it is paused


def compare(
    load: Load, sides: Sequence[Side], *, rounds: int, seconds: float, advance: Callable[[], None]
) -> Comparison:
    """Each side for that many seconds in each round."""
    measure = _interleaved if len({side.server.port for side in sides}) == len(sides) else _one_by_one
    for side in sides:
        run_load(load, side.server.port, side.request, 1)  # not counted: nobody's first requests are
    measured = []
    for number in range(rounds):
        # Every other round goes the other way, so that being first favours no side.
        order = sides if number % 2 == 0 else list(reversed(sides))
        found = dict(zip((side.name for side in order), measure(load, order, seconds), strict=True))
        measured.append({side.name: found[side.name] for side in sides})
        advance()
    return Comparison(measured)


def _one_by_one(load: Load, sides: Sequence[Side], seconds: float) -> list[Slice]:
    return [_slice(load, side, seconds) for side in sides]


def _slice(load: Load, side: Side, seconds: float) -> Slice:
    before = side.server.cpu_seconds()
    return _slice_of(run_load(load, side.server.port, side.request, seconds), side.server.cpu_seconds() - before)


def _interleaved(load: Load, sides: Sequence[Side], seconds: float) -> list[Slice]:
    before = [side.server.cpu_seconds() for side in sides]
    with ExitStack() as stack:
        loadings = [_paused(load, side, stack) for side in sides]
        for _ in range(round(seconds / _TURN_SECONDS)):
            for each in loadings:
                each.resume()
                time.sleep(_TURN_SECONDS)
                each.pause()
        done = [each.end() for each in loadings]
    used = [side.server.cpu_seconds() - start for side, start in zip(sides, before, strict=True)]
    return [_slice_of(*each) for each in zip(done, used, strict=True)]


def _paused(load: Load, side: Side, stack: ExitStack) -> Loading:
    loading = load.start(side.server.port, side.request, _LONGEST_ROUND)
    stack.callback(loading.kill)
    loading.pause()
    return loading


def _slice_of(done: Done, cpu_seconds: float) -> Slice:
    return Slice(cpu_seconds * 1e6 / max(done.requests, 1), done.requests / done.seconds)
