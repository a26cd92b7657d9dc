"""`relaydeck relayer pause`, `resume` and `why`."""

import asyncio
import time
from typing import Any

from relaydeck.admin.views import json_values
from relaydeck.app import fee_options
from relaydeck.cli.local.store import existing_store, local_change
from relaydeck.cli.output import print_fields, print_json, print_line, print_note, print_record, print_table
from relaydeck.fees.estimator import Estimator
from relaydeck.relayers import why
from relaydeck.relayers.explanation import Explanation
from relaydeck.relayers.relayer_changes import set_paused
from relaydeck.settings import Settings, read_settings
from relaydeck.signers.signer_state import read_signer_state, with_signer

_NODE_COLUMNS = {
    "node": lambda each: each["node"],
    "weight": lambda each: each["weight"],
    "now": lambda each: each["problem"] or f"ok, block {each['block']}",
    "ms": lambda each: each["milliseconds"],
    "last problem": lambda each: each["last_problem"],
    "at": lambda each: each["last_problem_at"],
}


def pause(relayer_id: str) -> None:
    with local_change() as change:
        changed = set_paused(change, relayer_id, paused=True)
    print_note(f"paused relayer {relayer_id}" if changed else f"relayer {relayer_id} is already paused")


def resume(relayer_id: str) -> None:
    with local_change() as change:
        changed = set_paused(change, relayer_id, paused=False)
    print_note(f"resumed relayer {relayer_id}" if changed else f"relayer {relayer_id} is not paused")


def explain(relayer_id: str, as_json: bool) -> None:
    """The same explanation as the admin API's, without a running service."""
    settings = read_settings()
    with existing_store() as store:
        stored = why.read(store.database.read, store.vault, relayer_id)
        signer = read_signer_state(store.database.read, relayer_id)
    explanation = json_values(with_signer(asyncio.run(_explanation(stored, settings)), signer))
    if as_json:
        print_json(explanation)
    else:
        _print(explanation)


async def _explanation(stored: why.StoredState, settings: Settings) -> Explanation:
    estimator = Estimator(fee_options(settings))
    interval, rounds = settings.monitor_interval_seconds, settings.monitor_rounds
    try:
        return await why.explain(stored, estimator.pool, interval=interval, rounds=rounds, now=time.time())
    finally:
        await estimator.close()


def _print(explanation: dict[str, Any]) -> None:
    states, nodes = explanation.pop("states"), explanation.pop("nodes")
    print_record(explanation)
    if states:
        print_fields(states, ("state", "since", "by", "cause"))
    else:
        print_line(_summary(nodes))
    print_table(nodes, _NODE_COLUMNS)


def _summary(nodes: list[dict[str, Any]]) -> str:
    """For a relayer in no state that needs attention, whose nodes may fail all the same."""
    failing = sum(not each["ok"] for each in nodes)
    if failing:
        return f"the relayer is enabled and not paused, but {failing} of its {len(nodes)} nodes fail now"
    if not nodes:
        return "the relayer is enabled and not paused, but it has no RPC URL to check"
    return "the relayer has no problem, and its nodes answer"
