"""How records are printed: a table for people, JSON for scripts, notes on standard error."""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

Column = Callable[[dict[str, Any]], Any]
_WIDE = 200  # where no terminal says how wide it is


def print_json(value: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def print_table(views: Iterable[dict[str, Any]], columns: Mapping[str, Column]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in columns:
        table.add_column(name, overflow="fold")  # an identifier that is cut short cannot be copied
    for view in views:
        table.add_row(*(Text(_told(column(view))) for column in columns.values()))
    Console(width=None if sys.stdout.isatty() else _WIDE).print(table)


def print_record(view: dict[str, Any]) -> None:
    rows = [{"field": name, "value": value} for name, value in _flat(view)]
    print_table(rows, {"field": lambda row: row["field"], "value": lambda row: row["value"]})


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        sys.stderr.write(f"note: {note}\n")


def _flat(view: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in view.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _told(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
