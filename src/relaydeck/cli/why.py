"""`relaydeck relayer why`: the same explanation as the admin API's, without a running service."""

import asyncio
import sys
import time
from typing import Any

from relaydeck.app import fee_options
from relaydeck.cli.local_changes import opened
from relaydeck.cli.showing import print_json, print_record, print_table
from relaydeck.fees.estimator import Estimator
from relaydeck.relayers import why
from relaydeck.relayers.why import Known
from relaydeck.settings import Settings, read_settings

_STATE_COLUMNS = ("state", "since", "by", "cause")
_NODE_COLUMNS = {
    "node": lambda each: each["node"],
    "weight": lambda each: each["weight"],
    "now": lambda each: each["problem"] or f"ok, block {each['block']}",
    "ms": lambda each: each["milliseconds"],
    "seen by the monitor": lambda each: each["last_problem"],
    "at": lambda each: each["last_problem_at"],
}


def explain(relayer_id: str, as_json: bool) -> None:
    settings = read_settings()
    with opened() as store:
        known = why.read(store.database.read, store.vault, relayer_id)
    found = asyncio.run(_explained(known, settings))
    if as_json:
        print_json(found)
    else:
        _print(found)


async def _explained(known: Known, settings: Settings) -> dict[str, Any]:
    estimator = Estimator(fee_options(settings))
    interval, rounds = settings.monitor_interval_seconds, settings.monitor_rounds
    try:
        return await why.explained(known, estimator.pool, interval=interval, rounds=rounds, now=time.time())
    finally:
        await estimator.close()


def _print(found: dict[str, Any]) -> None:
    states, nodes = found.pop("states"), found.pop("nodes")
    print_record(found)
    if states:
        print_table(states, {name: lambda each, name=name: each[name] for name in _STATE_COLUMNS})  # type: ignore[misc]
    else:
        sys.stdout.write("nothing is wrong with it\n")
    print_table(nodes, _NODE_COLUMNS)
