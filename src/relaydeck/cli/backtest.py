"""`relaydeck estimate --backtest`: how far the estimates of a network are from what was really paid."""

import asyncio
import time
from decimal import Decimal
from pathlib import Path

from relaydeck.cli.backtest_plot import plot
from relaydeck.cli.local.store import existing_store
from relaydeck.cli.output import print_line, print_rows, progress_bar
from relaydeck.errors import RecordNotFound
from relaydeck.fees.backtest import Backtest, Tested, spread_of
from relaydeck.fees.chain_cache import ChainCaches
from relaydeck.networks import network_rows
from relaydeck.networks.model import Network
from relaydeck.settings import read_settings
from relaydeck.worker.fee_settings import fee_options


def run(name: str, blocks: int, svg: Path | None) -> None:
    found = asyncio.run(_tested(_network(name), blocks))
    _print(found)
    if svg is not None:
        svg.write_text(plot(name, [each.percent for each in found if each.percent is not None]))
        print_line(f"wrote {svg}")


def _network(name: str) -> Network:
    with existing_store() as store:
        rows = store.database.read(f"SELECT {network_rows.COLUMNS} FROM networks WHERE name = :name", {"name": name})
        if not rows:
            raise RecordNotFound("network")
        return network_rows.from_row(rows[0], store.vault)


async def _tested(network: Network, blocks: int) -> list[Tested]:
    options, loop = fee_options(read_settings()), asyncio.get_running_loop()
    caches = ChainCaches(options, time.monotonic)
    cache = caches.find(network.rpc_urls, network.chain_id)
    test = Backtest(network, cache, lambda: loop.time() + options.deadline)
    found: list[Tested] = []
    try:
        newest = await test.newest()
        numbers = range(max(1, newest - blocks + 1), newest + 1)
        with progress_bar("testing blocks", len(numbers)) as advance:
            for number in numbers:
                found += await test.block(number)
                advance(1)
    finally:
        await caches.close()
    return found


def _print(found: list[Tested]) -> None:
    kinds: dict[str, list[Decimal]] = {}
    for each in found:
        if each.percent is not None:
            kinds.setdefault(each.kind, []).append(each.percent)
    if not kinds:
        print_line("no transaction could be estimated")
    else:
        every = [percent for percents in kinds.values() for percent in percents]
        names = ("transactions", "count", "median", "95 % within", "worst")
        print_rows(names, [[_row(kind, kinds[kind]) for kind in sorted(kinds)], [_row("all", every)]])
    for each in found:
        if each.percent is None:
            print_line(f"block {each.block}, {each.kind}: no estimate: {each.problem}")


def _row(name: str, percents: list[Decimal]) -> tuple[str, int, str, str, str]:
    spread = spread_of(percents)
    return name, spread.count, f"{spread.median:.2f} %", f"{spread.p95:.2f} %", f"{spread.worst:+.2f} %"
