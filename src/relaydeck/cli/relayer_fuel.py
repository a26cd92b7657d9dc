"""`relaydeck relayer fuel`: the balances of relayers, and how long they last."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from relaydeck.cli.output import print_json, print_line, print_note, print_rows
from relaydeck.cli.target import backend
from relaydeck.quantities import NATIVE_DECIMALS, counted

Json = dict[str, Any]

_BARS = "▁▂▃▄▅▆▇█"
_WEEK, _STEP = 7 * 86_400, "4h"
_COLUMNS = ("relayer", "network", "balance", "an hour", "until minimum", "range", "until zero", "last 7 days")


def show_one(relayer_id: str, as_json: bool) -> None:
    relayers = backend().relayers
    runway, history = relayers.runway(relayer_id), relayers.balances(relayer_id, _WEEK, _STEP)
    if as_json:
        print_json({"runway": runway, "history": history})
    else:
        _print_one(runway, history)


def show_first(count: int, as_json: bool) -> None:
    relayers = backend().relayers
    runways = relayers.first_runways(count)
    if as_json:
        print_json(runways)
        return
    rows = [_row(each, relayers.balances(each["relayer_id"], _WEEK, _STEP)) for each in runways]
    print_rows(_COLUMNS, [rows])
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


def _print_one(runway: Json, history: Json) -> None:
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
