"""`make paid`: estimates and sends every kind of transaction and 500 random ones on each node, and writes the table.

Transactions with a deadline are sent on chains of the same nodes with a block every two seconds.
"""

import asyncio
import sys

import click

from tests.proofs.paid.kinds import DEADLINES, PERIOD
from tests.proofs.paid.suite import NODES, Outcome, Suite
from tests.proofs.paid.table import Outcomes, close_share, faults, write

RANDOM = 500
REPEATED = 5  # of each deadline, at different moments between two blocks


async def run(node: str) -> list[Outcome]:
    chain, model = NODES[node]
    with chain(0) as running:
        suite = Suite(running, model, node)
        kinds = suite.kinds()
        with click.progressbar(length=len(kinds) + RANDOM, label=f"{node:8}") as bar:
            found = []
            for kind in kinds:
                found.append(await suite.kind(kind))
                bar.update(1)
            for number in range(RANDOM):
                found.append(await suite.random(number))
                bar.update(1)
        await suite.estimator.close()
    return found + await run_deadlines(node)


async def run_deadlines(node: str) -> list[Outcome]:
    chain, model = NODES[node]
    with chain(PERIOD) as running:
        suite = Suite(running, model, node)
        found = [await suite.kind(kind) for kind in DEADLINES for _ in range(REPEATED)]
        await suite.estimator.close()
    return found


def main() -> None:
    found: Outcomes = {node: asyncio.run(run(node)) for node in NODES}
    write(found)
    every = [each for outcomes in found.values() for each in outcomes]
    for each in faults(every):
        click.echo(f"{each.kind}: {each.error or f'{each.percent:.2f} %'}", err=True)
    click.echo(f"{close_share(every):.1f} % of {len(every)} within 2 %")
    sys.exit(bool(faults(every)) or close_share(every) < 95)


main()
