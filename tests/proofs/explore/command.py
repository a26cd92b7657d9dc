"""The command `python -m tests.proofs.explore`: what is tried in which order, and the tables that it prints."""

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Iterator

from tests.proofs.explore import page, planted
from tests.proofs.explore.explorer import Explorer, Tally, kinds_of
from tests.proofs.explore.homes import Ground, Homes, prepared_ground
from tests.proofs.explore.jobs import Unit, by_chance, running_jobs
from tests.proofs.explore.model_runs import run_models
from tests.proofs.explore.operations import COMMANDS, OPERATIONS, Operation, by_name
from tests.support.fork_server import _import_everything

_MOST_CALLS_OF_A_BUG = 20  # by then a run with a planted bug has failed
_PASSES_OF_A_BUG = 3  # background work may shift the calls of a run, so that no fault meets the one that matters


def main() -> None:
    options = _options()
    _import_everything()  # in this process, so that each forked one finds it there
    gc.freeze()
    if options.planted:
        json.dump(_find_bugs(options), sys.stdout)
        return
    end = time.monotonic() + options.hours * 3600
    with prepared_ground(_engines(options.engine)) as ground:
        tallies = _explore(ground, options)
    print(page.table(tallies))
    if options.write:
        page.write(tallies)
    findings = [each for tally in tallies.values() for each in tally.findings]
    for each in findings:
        print(each)
    is_modelled = _run_models(options.seed, end) if _share_of_model(options) else True
    sys.exit(0 if is_modelled and not findings else 1)


def _share_of_model(options: argparse.Namespace) -> float:
    is_part = options.operation or options.engine or options.kind
    share: float = 0.0 if is_part or not options.hours else options.model
    return share


def _run_models(seed: int, end: float) -> bool:
    """Whether every answer was that of the model."""
    runs = []
    for each in run_models(seed, end):
        print(each, flush=True)
        runs.append(each)
    print(f"{len(runs)} runs of the model, {sum(not each.passed for each in runs)} with findings", flush=True)
    return all(each.passed for each in runs)


def _engines(chosen: str) -> list[str]:
    return [chosen] if chosen else ["SQLite", "PostgreSQL"]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make explore", description=__doc__)
    parser.add_argument(
        "--hours", type=float, default=0.0, help="end after so long; time that is left goes to random faults"
    )
    parser.add_argument(
        "--model",
        type=float,
        default=0.2,
        metavar="SHARE",
        help="of --hours, for random operations beside a model (test_model.py); default: 0.2, and 0 with --operation,"
        " --engine or --kind. MODEL_EXAMPLES and MODEL_STEPS in the environment set the length of one run",
    )
    parser.add_argument("--seconds", type=float, default=0.0, help="random faults only, for so long")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="of the random order"
    )
    parser.add_argument(
        "--operation", action="append", default=[], help="only operations with this in their name; may be repeated"
    )
    parser.add_argument("--call", type=int, default=0, help="with --kind and --operation: run one fault again")
    parser.add_argument(
        "--kind", default="", help="only faults of this kind: error, crash, hang, silence, lost or clock"
    )
    parser.add_argument(
        "--engine", default="", choices=["SQLite", "PostgreSQL", ""], help="SQLite or PostgreSQL; default: both"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes that explore at the same time")
    parser.add_argument("--write", action="store_true", help="write the table to docs/reliability.md")
    parser.add_argument("--planted", action="store_true", help="look for the planted bugs; prints JSON")
    return parser.parse_args()


def _find_bugs(options: argparse.Namespace) -> dict[str, list[str]]:
    chosen = {name: bug for name, bug in planted.BUGS.items() if _is_looked_for(bug, options)}
    with prepared_ground(sorted({bug.engine for bug in chosen.values()})) as ground:
        homes = {each.engine: each for each in ground.prepare_homes()}
        return {name: _find_bug(homes[bug.engine], name) for name, bug in chosen.items()}


def _is_looked_for(bug: planted.Bug, options: argparse.Namespace) -> bool:
    return _is_chosen(bug.operation, options.operation) and bug.engine in _engines(options.engine)


def _find_bug(homes: Homes, name: str) -> list[str]:
    """What a planted bug is found by: the problems of the first faults."""
    bug = planted.BUGS[name]
    (operation,) = (each for each in OPERATIONS if each.name == bug.operation)
    explorer, tally = Explorer(homes, name), Tally()
    for fault in list(planted.faults(bug, _MOST_CALLS_OF_A_BUG)) * _PASSES_OF_A_BUG:
        explorer.try_one(operation, fault, tally)
        if any(bug.found_as in each.problem for each in tally.findings):
            break
    return [str(each) for each in tally.findings]


Tallies = dict[tuple[str, str], Tally]


def _explore(ground: Ground, options: argparse.Namespace) -> Tallies:
    places = [(engine, each.name) for each in _smallest_first(options.operation) for engine in ground.engines]
    tallies: Tallies = {place: Tally() for place in places}
    hours = options.hours * (1 - _share_of_model(options))
    end = time.monotonic() + hours * 3600 if options.hours else float("inf")
    with running_jobs(ground, options.jobs) as jobs:
        if options.call:
            units = [Unit(*place, options.kind, options.call) for place in places]
        elif options.seconds:
            units = []
        else:
            units = [Unit(*place, kind, end=end) for place in places for kind in _kinds(place, options.kind)]
        _collect(jobs.run(units), tallies, write=options.write)
        if options.seconds or options.hours:
            print(f"seed {options.seed}", flush=True)
            _collect(jobs.run(by_chance(places, options.seed, _end_of_chance(options, end))), tallies, write=False)
    return tallies


def _kinds(place: tuple[str, str], chosen: str) -> list[str]:
    return [kind for kind in kinds_of(by_name(place[1]), place[0]) if chosen in (kind, "")]


def _end_of_chance(options: argparse.Namespace, end: float) -> float:
    return time.monotonic() + options.seconds if options.seconds else end


def _smallest_first(parts: list[str]) -> list[Operation]:
    """Commands make the most calls: whatever time there is, most operations are explored as a whole."""
    return sorted((each for each in OPERATIONS if _is_chosen(each.name, parts)), key=lambda each: each in COMMANDS)


def _is_chosen(name: str, parts: list[str]) -> bool:
    return not parts or any(part in name for part in parts)


def _collect(results: Iterator[tuple[Unit, Tally]], tallies: Tallies, *, write: bool) -> None:
    for unit, tally in results:
        tallies[unit.engine, unit.operation].add(tally)
        for each in tally.findings:
            print(each, flush=True)
        if unit.kind:
            print(f"{unit.engine}, {unit.operation}, {unit.kind}: {tally.faults} faults", file=sys.stderr, flush=True)
        if write:
            page.write(tallies)
