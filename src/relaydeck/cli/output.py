"""How commands print: tables for people, JSON for scripts, notes and progress on standard error; files they write.

Stored names and the messages of remote nodes are data, not markup. Everything printed passes through `printable`,
so that a name cannot move the cursor, set the window title or change colours.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from relaydeck.errors import OperatorError
from relaydeck.fields import Shape as Shape
from relaydeck.fields import about as about
from relaydeck.log import printable

if TYPE_CHECKING:
    from rich.console import Console

Column = str | Callable[[dict[str, Any]], Any]  # the path of a field, such as `check.outcome`, or how to find a value
Advance = Callable[[int], None]
Value = TypeVar("Value")
_WIDTH_WITHOUT_TERMINAL = 1_000_000  # one record, one line, for programs that read lines


def print_line(text: str) -> None:
    sys.stdout.write(f"{printable(text)}\n")


def print_lines(texts: Iterable[str]) -> None:
    for text in texts:
        print_line(text)


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
    rows = [[_value(view, column) for column in columns.values()] for view in views]
    print_rows(tuple(columns), [rows])


def _value(view: dict[str, Any], column: Column) -> Any:
    """Nothing where a part of the path is null or absent."""
    if callable(column):
        return column(view)
    found: Any = view
    for name in column.split("."):
        found = found and found.get(name)
    return found


def columns(*names: str) -> dict[str, Column]:
    return {name: name for name in names}


def print_rows(names: Sequence[str], sections: Iterable[Iterable[Iterable[Any]]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in names:
        table.add_column(name, overflow="fold")  # a shortened identifier cannot be copied
    for section in sections:
        for row in section:
            table.add_row(*(Text(printable(_cell(value))) for value in row))
        table.add_section()
    _console(soft_wrap=False).print(table)


def print_record(view: dict[str, Any]) -> None:
    print_rows(("field", "value"), [_flat(view)])


def print_styled(*parts: tuple[str, str]) -> None:
    """One line of texts, each with its colour; without colours where the output is not a terminal."""
    from rich.text import Text

    line = Text.assemble(*((printable(text), colour) for text, colour in parts))
    _console(soft_wrap=True).print(line)


_STEP_STYLES = {"create": ("+", "green"), "change": ("~", "yellow"), "remove": ("-", "red")}


def print_steps(steps: Iterable[dict[str, Any]]) -> None:
    """Those of a plan."""
    for step in steps:
        mark, colour = _STEP_STYLES[step["action"]]
        print_styled((f"{mark} {step_name(step)}", colour))
        for change in step["fields"]:
            # Nothing of a secret is shown.
            values = " -> ".join(filter(None, (change["before"], change["after"]))) or "(changed)"
            print_styled((f"    {change['name']}: {values}", colour))


def step_name(step: dict[str, Any]) -> str:
    title = f" ({step['title']})" if step.get("title", step["name"]) != step["name"] else ""
    return f"{step['kind']} {step['name']}{title}"


@contextmanager
def progress_bar(label: str, total: int, *, at_least: int = 0, elsewhere: bool = False) -> Iterator[Advance]:
    """A progress bar on a terminal, for work of at least so many steps; otherwise nothing.

    `elsewhere`: nobody tells how far the work is, so the bar only moves.
    """
    if total < at_least or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None if elsewhere else total)
        yield lambda done: progress.advance(task, done)


def show(value: Value, as_json: bool, print_words: Callable[[Value], None]) -> None:
    if as_json:
        print_json(value)
    else:
        print_words(value)


def print_outcome(value: Any, as_json: bool, *lines: str) -> None:
    show(value, as_json, lambda _: print_lines(lines))


def print_change(value: Any, as_json: bool, note: str) -> None:
    """What a command changed: as JSON, or as a note on standard error."""
    show(value, as_json, lambda _: print_note(note))


def print_response(data: Any) -> None:
    """The response of an operation: a list as a table, one value on a line, several as fields."""
    if isinstance(data, list):
        print_table(data, columns(*(name for each in data for name in each)))  # of optional fields, those that occur
    elif len(data) == 1:
        print_line(_cell(*data.values()))
    else:
        print_record(data)


def write_new_file(path: Path, content: bytes) -> None:
    """Readable by its owner alone. Never overwrites a file. Raises OperatorError."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise OperatorError(f"{path} exists", "Name another file, or remove this one. Nothing was written.") from None
    except OSError as error:
        raise OperatorError(
            f"{path.name} cannot be written to the folder {path.absolute().parent}: {error.strerror}",
            "Create the folder, or make it writable, or name a file in another folder. Nothing was written.",
        ) from None
    with open(descriptor, "wb") as file:
        file.write(content)


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
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
