"""The command `python -m tests.explore`: what is tried in which order, and the tables that it prints."""

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Iterator

from tests.explore import page, planted
from tests.explore.boundary import Fault
from tests.explore.explorer import Explorer, Finding, Homes, Tally, prepared_homes
from tests.explore.operations import OPERATIONS, Operation
from tests.fork_server import _import_everything

_MOST_CALLS_OF_A_BUG = 14  # by then a run with a planted bug has failed


def main() -> None:
    options = _options()
    _import_everything()  # in this process, so that each forked one finds it there
    gc.freeze()
    with prepared_homes("SQLite" if options.planted else options.engine) as engines:
        if options.planted:
            chosen = [name for name in planted.BUGS if options.operation in planted.BUGS[name].operation]
            json.dump({name: _find_bug(engines[0], name) for name in chosen}, sys.stdout)
            return
        tallies = _explore(engines, options)
    print(page.table(tallies))
    if options.write:
        page.write(tallies)
    findings = [each for tally in tallies.values() for each in tally.findings]
    for each in findings:
        print(each)
    sys.exit(1 if findings else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make explore", description=__doc__)
    parser.add_argument("--hours", type=float, default=0.0, help="go on with random faults for so long")
    parser.add_argument("--seconds", type=float, default=0.0, help="random faults only, for so long")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="of the random order"
    )
    parser.add_argument("--operation", default="", help="only operations with this in their name")
    parser.add_argument("--call", type=int, default=0, help="with --kind and --operation: run one fault again")
    parser.add_argument("--kind", default="", help="error, crash, hang, lost or clock")
    parser.add_argument("--engine", default="", help="SQLite or PostgreSQL; default: both")
    parser.add_argument("--write", action="store_true", help="write the table to docs/reliability.md")
    parser.add_argument("--planted", action="store_true", help="look for the planted bugs; prints JSON")
    return parser.parse_args()


def _find_bug(homes: Homes, name: str) -> list[str]:
    """What a planted bug is found by: the problems of the first faults."""
    bug = planted.BUGS[name]
    (operation,) = (each for each in OPERATIONS if each.name == bug.operation)
    explorer, tally = Explorer(homes, name), Tally()
    for fault in planted.faults(bug, _MOST_CALLS_OF_A_BUG):
        is_met = explorer.try_one(operation, fault, tally)
        if not is_met or any(bug.found_as in each.problem for each in tally.findings):
            break
    return [str(each) for each in tally.findings]


Tallies = dict[tuple[str, str], Tally]


def _explore(engines: list[Homes], options: argparse.Namespace) -> Tallies:
    chosen = [each for each in OPERATIONS if options.operation in each.name]
    explorers = {homes.engine: Explorer(homes) for homes in engines}
    tallies: Tallies = {(engine, each.name): Tally() for engine in explorers for each in chosen}
    if options.call:
        for engine, operation in _everywhere(explorers, chosen):
            tally = tallies[engine, operation.name]
            explorers[engine].try_one(operation, Fault(options.call, options.kind), tally)
        return tallies
    if not options.seconds:
        for engine, operation in _everywhere(explorers, chosen):
            explorers[engine].explore(operation, tallies[engine, operation.name])
            _report(engine, operation, tallies[engine, operation.name])
            if options.write:
                page.write(tallies)
    _explore_by_chance(explorers, chosen, tallies, options.seed, options.hours * 3600 + options.seconds)
    return tallies


def _everywhere(explorers: dict[str, Explorer], chosen: list[Operation]) -> Iterator[tuple[str, Operation]]:
    return ((engine, operation) for engine in explorers for operation in chosen)


def _explore_by_chance(
    explorers: dict[str, Explorer], chosen: list[Operation], tallies: Tallies, seed: int, seconds: float
) -> None:
    if seconds <= 0:
        return
    print(f"seed {seed}", flush=True)
    dice, end = random.Random(seed), time.monotonic() + seconds
    while True:
        order = list(_everywhere(explorers, chosen))
        dice.shuffle(order)
        for engine, operation in order:
            if time.monotonic() > end:
                return
            explorers[engine].explore_by_chance(operation, dice, tallies[engine, operation.name])
            _print_new(tallies[engine, operation.name])


def _print_new(tally: Tally) -> None:
    for each in tally.unprinted():
        print(each, flush=True)


def _report(engine: str, operation: Operation, tally: Tally) -> None:
    print(f"{engine}, {operation.name}: {tally.calls} calls, {tally.faults} faults", file=sys.stderr, flush=True)
    _print_new(tally)


__all__ = ["Finding", "main"]
