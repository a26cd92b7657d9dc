"""Several processes explore at the same time, because most of a run is waiting.

They share a node and a PostgreSQL server. Each has a receiver, prepared homes and references of its own.
"""

import multiprocessing
import random
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from tests.proofs.explore.boundary import Fault
from tests.proofs.explore.explorer import Explorer, Finding, Tally
from tests.proofs.explore.homes import Ground
from tests.proofs.explore.operations import by_name


class Unit(NamedTuple):
    """One kind of fault of one operation: each call in turn until `end`, or one `call`, or one by chance by `seed`."""

    engine: str
    operation: str
    kind: str = ""
    call: int = 0
    seed: str = ""
    end: float = float("inf")  # of the monotonic clock, which the processes share


_explorers: dict[str, Explorer] = {}


def _prepare(ground: Ground) -> None:
    _explorers.update({homes.engine: Explorer(homes) for homes in ground.prepare_homes()})


def _run(unit: Unit) -> Tally:
    tally = Tally()
    try:
        _explore(unit, tally)
    except Exception as error:  # the other units go on
        tally.findings.append(Finding(unit.engine, unit.operation, None, f"the exploration failed: {error!r:.2000}"))
    return tally


def _explore(unit: Unit, tally: Tally) -> None:
    explorer, operation = _explorers[unit.engine], by_name(unit.operation)
    if unit.call:
        explorer.try_one(operation, Fault(unit.call, unit.kind), tally)
    elif unit.seed:
        explorer.explore_by_chance(operation, random.Random(unit.seed), tally)
    else:
        explorer.explore(operation, unit.kind, tally, unit.end)


class Jobs:
    def __init__(self, pool: ProcessPoolExecutor, count: int) -> None:
        self._pool, self._count = pool, count

    def run(self, units: Iterable[Unit]) -> Iterator[tuple[Unit, Tally]]:
        """Each unit with its result, as soon as it has one. Takes a unit only when a process is free for it."""
        left, running = iter(units), dict[Future[Tally], Unit]()
        while True:
            for unit in islice(left, self._count - len(running)):
                running[self._pool.submit(_run, unit)] = unit
            if not running:
                return
            for ended in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(ended), ended.result()


@contextmanager
def running_jobs(ground: Ground, count: int) -> Iterator[Jobs]:
    context = multiprocessing.get_context("fork")  # what is imported, and the boundary, are there at once
    with ProcessPoolExecutor(count, context, _prepare, (ground,)) as pool:
        yield Jobs(pool, count)


def by_chance(places: list[tuple[str, str]], seed: int, end: float) -> Iterator[Unit]:
    """Random faults until `end`, on every place before on any again."""
    dice = random.Random(seed)
    while True:
        dice.shuffle(places)
        for engine, operation in places:
            if time.monotonic() > end:
                return
            yield Unit(engine, operation, seed=str(dice.random()))
