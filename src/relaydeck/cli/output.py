"""How commands print: tables for people, JSON for scripts, notes and progress on standard error.

Stored names and the messages of remote nodes are data, not markup. Everything printed passes through `printable`,
so that a name cannot move the cursor, set the window title or change colours.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from relaydeck.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

Column = Callable[[dict[str, Any]], Any]
Advance = Callable[[int], None]
_WIDTH_WITHOUT_TERMINAL = 1_000_000  # one record, one line, for programs that read lines


class Styled(NamedTuple):
    """A cell of a table with a colour."""

    text: str
    colour: str


def print_line(text: str) -> None:
    sys.stdout.write(f"{printable(text)}\n")


def print_note(text: str) -> None:
    """Write to standard error. Line breaks are kept: long messages have several lines."""
    sys.stderr.write("".join(f"{printable(line)}\n" for line in text.split("\n")))


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        print_note(f"note: {note}")


def print_json(value: Any) -> None:
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    sys.stdout.buffer.write(b"".join(_json_line(line) for line in text.split("\n")))
    sys.stdout.buffer.flush()


def print_json_line(value: Any) -> None:
    """One value on one line, for programs that read a stream."""
    sys.stdout.buffer.write(_json_line(msgspec.json.encode(value).decode()))


def _json_line(line: str) -> bytes:
    """JSON text in which strings hold no character that a terminal could interpret."""
    if not line.isprintable():
        line = "".join(each if each.isprintable() else _json_escape(each) for each in line)
    return f"{line}\n".encode()


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def print_table(views: Iterable[dict[str, Any]], columns: Mapping[str, Column]) -> None:
    rows = [[column(view) for column in columns.values()] for view in views]
    print_rows(tuple(columns), [rows])


def print_fields(views: Iterable[dict[str, Any]], names: Sequence[str]) -> None:
    """A table with one column for each of these fields."""
    print_rows(names, [[[view[name] for name in names] for view in views]])


def print_rows(names: Sequence[str], sections: Iterable[Iterable[Iterable[Any]]]) -> None:
    """A table with a line between its sections."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in names:
        table.add_column(name, overflow="fold")  # a shortened identifier cannot be copied
    for section in sections:
        for row in section:
            table.add_row(*(Text(printable(_cell(value)), _colour(value)) for value in row))
        table.add_section()
    _console(soft_wrap=False).print(table)


def print_record(view: dict[str, Any]) -> None:
    print_rows(("field", "value"), [_flat(view)])


def print_styled(*parts: tuple[str, str]) -> None:
    """One line of texts, each with its colour; without colours where the output is not a terminal."""
    from rich.text import Text

    line = Text.assemble(*((printable(text), colour) for text, colour in parts))
    _console(soft_wrap=True).print(line)


@contextmanager
def progress_bar(label: str, total: int, *, at_least: int = 0) -> Iterator[Advance]:
    """A progress bar on a terminal, for work of at least so many steps; otherwise nothing."""
    if total < at_least or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done: progress.advance(task, done)


def print_outcome(value: Any, as_json: bool, *lines: str) -> None:
    """The outcome of a command: as JSON, or in words."""
    if as_json:
        print_json(value)
    for line in () if as_json else lines:
        print_line(line)


def print_change(value: Any, as_json: bool, note: str) -> None:
    """What a command changed: as JSON, or as a note on standard error."""
    if as_json:
        print_json(value)
    else:
        print_note(note)


@contextmanager
def waiting_bar(label: str, *, count: int, at_least: int) -> Iterator[None]:
    """A moving bar on a terminal while something of at least so many parts runs elsewhere; otherwise nothing."""
    if count < at_least or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(label, total=None)
        yield


def _console(*, soft_wrap: bool) -> "Console":
    from rich.console import Console

    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(width=width, highlight=False, soft_wrap=soft_wrap)


def _flat(view: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in view.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, Styled):
        return value.text
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _colour(value: Any) -> str:
    return value.colour if isinstance(value, Styled) else ""
