"""Events to fifty receivers: how many a second, and whether fifteen bad ones delay the others.

Two services, each with its own home and its own fifty receivers; fifteen of one's hang, fail or reset. The same
events are written for both at the same pace, in turn, while the other service is stopped. This process is all the
receivers, and it writes the events.
"""

import asyncio
import time
from contextlib import AsyncExitStack, ExitStack
from statistics import median, quantiles
from typing import NamedTuple

import uvloop

from bench.comparing import ratio_of
from bench.event_writer import EventWriter, add_receivers, writing_events
from bench.homes import make_home
from bench.processes import Server
from bench.receivers import Kind, Receivers
from bench.rows import Row
from bench.run import Pace, Run, started_relaydeck

_AT_MOST = 1.5
_RECEIVERS, _BAD = 50, 15
_WHAT = "events to 50 receivers at half the highest rate, 15 of them hanging, failing or resetting"
_AGAINST = "the same events with 50 healthy receivers"
_MEASURE = "99th percentile from commit to arrival at the 35"
_WAITING = 400  # so many not yet arrived find delivery busy all the time
_TICK_SECONDS = 0.01
_WARM_SECONDS = 0.3
_START_SECONDS = 4.0
_RATES = 3
_LATE_SECONDS = 20.0
_HEALTHY_KINDS = [Kind.HEALTHY] * _RECEIVERS
_SOME_BAD_KINDS = [Kind.HEALTHY] * (_RECEIVERS - _BAD) + [Kind.HANGING, Kind.FAILING, Kind.RESETTING] * (_BAD // 3)


class _Side(NamedTuple):
    name: str
    server: Server
    receivers: Receivers
    events: EventWriter


def measure(run: Run) -> list[Row]:
    return uvloop.run(_measure(run))


def expected_seconds(pace: Pace) -> float:
    slices = 2 * pace.delivery_rounds + _RATES
    return slices * (pace.delivery_seconds + _WARM_SECONDS) + _START_SECONDS


async def _measure(run: Run) -> list[Row]:
    async with AsyncExitStack() as stack:
        clean = await _side(run, stack, "clean", _HEALTHY_KINDS)
        some_bad = await _side(run, stack, "some bad", _SOME_BAD_KINDS)
        run.advance(_START_SECONDS)
        some_bad.server.halt()
        highest = median([await _rate(run, clean) for _ in range(_RATES)])
        some_bad.server.go_on()
        rounds = [await _round(run, number, clean, some_bad, highest / 2) for number in range(run.pace.delivery_rounds)]
    clean_ms, bad_ms = (median(each) * 1000 for each in zip(*rounds, strict=True))
    run.small_print += [
        f"events, 50 healthy receivers: {highest:,.0f}/s at most",
        f"events at half of that, 99th percentile: clean {clean_ms:.0f} ms, with bad ones {bad_ms:.0f} ms",
    ]
    pairs = [(with_bad, without) for without, with_bad in rounds]
    return [Row(_WHAT, _AGAINST, _MEASURE, ratio_of(pairs), at_most=_AT_MOST)]


async def _side(run: Run, stack: AsyncExitStack, name: str, kinds: list[Kind]) -> _Side:
    home = make_home(run.folder / f"deliveries-{name.replace(' ', '-')}", signers=10, relayers=10)
    receivers = await stack.enter_async_context(Receivers(kinds))
    add_receivers(home, receivers.urls)
    servers = stack.enter_context(ExitStack())
    server = await asyncio.to_thread(started_relaydeck, servers, home, webhook_allow="127.0.0.0/8")
    events = stack.enter_context(writing_events(home, _RECEIVERS))
    side = _Side(name, server, receivers, events)
    await asyncio.to_thread(events.write, _RECEIVERS)  # not counted: delivery's code is loaded for the first event
    await _arrived(side, set(events.written))
    return side


async def _rate(run: Run, side: _Side) -> float:
    """As fast as they arrive; a first part is not counted."""
    await _keep_waiting(side, _WARM_SECONDS)
    before, start = len(side.receivers.arrived), time.monotonic()
    await _keep_waiting(side, run.pace.delivery_seconds)
    rate = (len(side.receivers.arrived) - before) / (time.monotonic() - start)
    await _arrived(side, set(side.events.written))
    run.advance(run.pace.delivery_seconds + _WARM_SECONDS)
    return rate


async def _keep_waiting(side: _Side, seconds: float) -> None:
    """Tell as many as arrive, so that there are always some on their way."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        missing = _WAITING - (len(side.events.written) - len(side.receivers.arrived))
        if missing > _WAITING // 8:
            await asyncio.to_thread(side.events.write, missing)
        await asyncio.sleep(_TICK_SECONDS / 2)


async def _round(run: Run, number: int, clean: _Side, some_bad: _Side, rate: float) -> tuple[float, float]:
    """The 99th percentile without bad ones and with them. Every other round the other way round."""
    found: dict[str, float] = {}
    for side, other in ((clean, some_bad), (some_bad, clean))[:: 1 if number % 2 == 0 else -1]:
        other.server.halt()
        found[side.name] = await _percentile(side, number, rate, run.pace.delivery_seconds)
        other.server.go_on()
        run.advance(run.pace.delivery_seconds + _WARM_SECONDS)
    return found["clean"], found["some bad"]


async def _percentile(side: _Side, number: int, rate: float, seconds: float) -> float:
    side.events.seed(number)
    await _write_steadily(side.events, rate, _WARM_SECONDS)
    before = max(side.events.written)
    await _write_steadily(side.events, rate, seconds)
    measured = {
        seq: each for seq, each in side.events.written.items() if seq > before and each.receiver < _RECEIVERS - _BAD
    }
    await _arrived(side, set(measured))
    taken = [side.receivers.arrived[sequence] - each.committed for sequence, each in measured.items()]
    return quantiles(taken, n=100)[98]


async def _write_steadily(events: EventWriter, rate: float, seconds: float) -> None:
    start, done = time.monotonic(), 0
    while (passed := time.monotonic() - start) < seconds:
        if (due := int(passed * rate) - done) > 0:
            await asyncio.to_thread(events.write, due)
            done += due
        await asyncio.sleep(max(0.0, _TICK_SECONDS - (time.monotonic() - start - passed)))


async def _arrived(side: _Side, expected: set[int]) -> None:
    """Wait for the events of healthy receivers to arrive."""
    awaited = {each for each in expected if side.receivers.kinds[side.events.written[each].receiver] is Kind.HEALTHY}
    until = time.monotonic() + _LATE_SECONDS
    while not awaited <= side.receivers.arrived.keys():
        side.server.require_alive()
        if time.monotonic() > until:
            raise RuntimeError(f"{len(awaited - side.receivers.arrived.keys())} events did not arrive")
        await asyncio.sleep(_TICK_SECONDS)
