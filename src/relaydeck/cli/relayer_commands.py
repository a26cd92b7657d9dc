"""`relaydeck relayer …`."""

import time
from collections.abc import Sequence
from copy import copy
from decimal import Decimal
from typing import Annotated, Any

import click

from relaydeck.api import operations
from relaydeck.api.operation import Operation
from relaydeck.cli.operation_commands import completed_records, identity
from relaydeck.cli.options import anywhere, as_json
from relaydeck.cli.output import (
    Column,
    Shape,
    about,
    columns,
    print_change,
    print_line,
    print_note,
    print_record,
    print_rows,
    print_table,
    show,
)
from relaydeck.cli.record_commands import record_group
from relaydeck.cli.reply import Json
from relaydeck.cli.target import target
from relaydeck.quantities import NATIVE_DECIMALS, counted
from relaydeck.relayers.runway import Runway
from relaydeck.relayers.why import Explanation
from relaydeck.timestamps import utc


def _state(view: Json) -> str:
    states = [word for word, field in (("paused", "paused"), ("disabled", "system_disabled")) if view[field]]
    return ", ".join(states) or "active"


relayer = record_group(
    "relayer", {**columns("id", "name", "network"), "state": _state, "address": "address", "signer": "signer_id"}
)


class PauseResult(Shape, frozen=True):
    relayer_id: Annotated[str, about("The relayer.")]
    paused: Annotated[bool, about("Whether it is paused now.")]
    changed: Annotated[bool, about("Whether the command changed that.")]


def _add_switch(operation: Operation, help: str, done: str, already: str) -> None:
    @relayer.command(operation.name.removesuffix("_relayer"), help=help)
    @identity(operation)
    @as_json(PauseResult)
    @anywhere
    def switch(identifier: str, as_json: bool) -> None:
        changed = target().call(operation, identifier).changed
        note = f"{done} relayer {identifier}" if changed else f"relayer {identifier} is {already}"
        print_change(PauseResult(identifier, operation is operations.PAUSE_RELAYER, changed), as_json, note)


_add_switch(operations.PAUSE_RELAYER, "Pause the relayer with this ID.", "paused", "already paused")
_add_switch(operations.RESUME_RELAYER, "Resume a paused relayer.", "resumed", "not paused")


_NODE_COLUMNS: dict[str, Column] = {
    **columns("node", "weight"),
    "now": lambda each: each["problem"] or f"ok, block {each['block']}",
    "behind": "blocks_behind",
    "ms": "milliseconds",
    "last fault": "last_fault",
    "fault at": "last_fault_at",
    "last problem": "last_problem",
    "at": "last_problem_at",
}


@relayer.command()
@identity(operations.EXPLAIN_RELAYER)
@as_json(Explanation)
@anywhere
def why(identifier: str, as_json: bool) -> None:
    """Explain the state of the relayer with this ID. It shows causes, times, and how the nodes respond now."""
    show(target().call(operations.EXPLAIN_RELAYER, identifier).data, as_json, _print_explanation)


def _print_explanation(explanation: Json) -> None:
    states, nodes = explanation.pop("states"), explanation.pop("nodes")
    print_record(explanation)
    if states:
        print_table(states, columns("state", "since", "by", "cause"))
    else:
        print_line(_summary(nodes))
    print_table(nodes, _NODE_COLUMNS)


def _summary(nodes: list[Json]) -> str:
    """For a relayer in no state that needs attention, whose nodes may fail all the same."""
    failing = sum(not each["ok"] for each in nodes)
    if failing:
        verb = "fails" if failing == 1 else "fail"
        return f"the relayer is enabled and not paused, but {failing} of its {len(nodes)} nodes {verb} now"
    if not nodes:
        return "the relayer is enabled and not paused, but it has no RPC URL to check"
    return "the relayer has no problem, and its nodes answer"


_BARS = "▁▂▃▄▅▆▇█"
_WEEK, _STEP = 7 * 86_400, "4h"


@click.command("runway", epilog="Example:  relaydeck relayer runway --first 20")
@click.argument("relayer_id", metavar="[ID]", default="", shell_complete=completed_records("relayers"))
@click.option("--first", type=click.IntRange(1, 1000), default=20, show_default=True, help="Most to show without ID.")
@as_json(Runway, many=True, remark="; with ID, an object with `runway` and `history`, a `BalanceHistory`")
@anywhere
def runway(relayer_id: str, first: int, as_json: bool) -> None:
    """Show how long the balance of a relayer lasts. Without ID: what runs out first.

    The forecast repeats what the relayer spent in the last day and in the last week, and shows the shorter result. The
    range is that of its heaviest and its lightest day. A forecast needs an hour of history and two payments.
    """
    if relayer_id:
        found = target().call(operations.GET_RELAYER_RUNWAY, relayer_id).data
        show({"runway": found, "history": _history(relayer_id)}, as_json, _print_runway)
    else:
        found = target().call(operations.LIST_RUNWAYS, query={"first": str(first)}).data["runways"]
        show(found, as_json, _print_runways)


_old_name = copy(runway)
_old_name.hidden = True
relayer.add_command(runway)
relayer.add_command(_old_name, "fuel")


def _history(relayer_id: str) -> Json:
    query = {"from": utc(time.time() - _WEEK), "step": _STEP}
    history: Json = target().call(operations.GET_RELAYER_BALANCES, relayer_id, query=query).data
    return history


def _print_runways(runways: list[Json]) -> None:
    names = ("relayer", "network", "balance", "an hour", "until minimum", "range", "until zero", "last 7 days")
    rows = [_row(each, _history(each["relayer_id"])) for each in runways]
    print_rows(names, [rows])
    print_note(f"{counted(len(rows), 'relayer')} with a forecast, what runs out first on top")


def _row(runway: Json, history: Json) -> list[Any]:
    minimum, zero = runway["until_minimum"], runway["until_zero"]
    return [
        runway["relayer_id"],
        runway["network"],
        amount(runway["balance"], runway["native_symbol"]),
        amount(runway["spent_per_hour"], runway["native_symbol"]),
        _expected(minimum),
        _range(minimum),
        _expected(zero),
        sparkline([each["balance"] for each in history["points"]]),
    ]


def _print_runway(found: Json) -> None:
    runway, history = found["runway"], found["history"]
    symbol, minimum, zero = runway["native_symbol"], runway["until_minimum"], runway["until_zero"]
    rows = [
        ("balance", amount(runway["balance"], symbol)),
        ("last saved", history["seen_at"]),
        ("min_balance", amount(runway["min_balance"], symbol)),
        ("spent in 7 days", amount(history["spent"], symbol)),
        ("spent per hour", amount(runway["spent_per_hour"], symbol)),
        ("until min_balance", f"{_expected(minimum)} ({_range(minimum)})" if minimum else "unknown"),
        ("until zero", f"{_expected(zero)} ({_range(zero)})" if zero else "unknown"),
        ("forecast", f"as in the last {runway['window']}" if minimum else f"none: {runway['unknown']}"),
        ("warning", _warning(runway)),
    ]
    print_rows((runway["relayer_id"], runway["network"]), [rows])
    print_line(f"last 7 days  {sparkline([each['balance'] for each in history['points']])}")
    for each in history["top_ups"]:
        print_line(f"top-up       {each['at']}  {amount(each['amount'], symbol)}")


def _warning(runway: Json) -> str:
    if not runway["warn_hours"]:
        return "off"
    return f"{'yes' if runway['low'] else 'no'}; warns below {runway['warn_hours']} h"


def _expected(time: Json | None) -> str:
    return duration(time["seconds"]) if time else "unknown"


def _range(time: Json | None) -> str:
    if not time:
        return "unknown"
    latest = time["latest_seconds"]
    return f"{duration(time['earliest_seconds'])} to {'open' if latest is None else duration(latest)}"


def duration(seconds: int) -> str:
    """The two largest units that fit: `9d 4h`, `3h 20m`, `5m`."""
    minutes = seconds // 60
    if minutes < 60:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes}m" if hours < 48 else f"{hours // 24}d {hours % 24}h"


def amount(wei: int | None, symbol: str) -> str:
    """For people: six decimals. `--json` is exact."""
    return "unknown" if wei is None else f"{Decimal(wei) / 10**NATIVE_DECIMALS:.6f} {symbol}"


def sparkline(balances: Sequence[int | None]) -> str:
    """One bar for each balance, between nothing and the largest; a space where it is not known."""
    largest = max((each for each in balances if each is not None), default=0) or 1
    return "".join(" " if each is None else _BARS[each * (len(_BARS) - 1) // largest] for each in balances)
