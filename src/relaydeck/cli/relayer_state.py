"""`relaydeck relayer pause`, `resume` and `why`."""

from typing import Any

from relaydeck.cli.json_shapes import PauseResult
from relaydeck.cli.output import print_change, print_fields, print_json, print_line, print_record, print_table
from relaydeck.cli.target import backend

_NODE_COLUMNS = {
    "node": lambda each: each["node"],
    "weight": lambda each: each["weight"],
    "now": lambda each: each["problem"] or f"ok, block {each['block']}",
    "behind": lambda each: each["blocks_behind"],
    "ms": lambda each: each["milliseconds"],
    "last fault": lambda each: each["last_fault"],
    "fault at": lambda each: each["last_fault_at"],
    "last problem": lambda each: each["last_problem"],
    "at": lambda each: each["last_problem_at"],
}


def pause(relayer_id: str, as_json: bool) -> None:
    changed = backend().relayers.set_paused(relayer_id, paused=True)
    note = f"paused relayer {relayer_id}" if changed else f"relayer {relayer_id} is already paused"
    print_change(PauseResult(relayer_id, paused=True, changed=changed), as_json, note)


def resume(relayer_id: str, as_json: bool) -> None:
    changed = backend().relayers.set_paused(relayer_id, paused=False)
    note = f"resumed relayer {relayer_id}" if changed else f"relayer {relayer_id} is not paused"
    print_change(PauseResult(relayer_id, paused=False, changed=changed), as_json, note)


def explain(relayer_id: str, as_json: bool) -> None:
    explanation = backend().relayers.explain(relayer_id)
    if as_json:
        print_json(explanation)
    else:
        _print(explanation)


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
        verb = "fails" if failing == 1 else "fail"
        return f"the relayer is enabled and not paused, but {failing} of its {len(nodes)} nodes {verb} now"
    if not nodes:
        return "the relayer is enabled and not paused, but it has no RPC URL to check"
    return "the relayer has no problem, and its nodes answer"
