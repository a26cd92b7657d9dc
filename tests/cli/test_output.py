"""Stored text is printed as data: no markup, no control sequence and no direction mark reaches the terminal."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from relaydeck.cli import output
from relaydeck.log import Log, printable
from tests.support.running import run_command

HOSTILE = {
    "closing markup": "[/nope]",
    "opening markup": "[bold red]x[link=http://x.example]",
    "colours": "\x1b[31mred",
    "window title": "\x1b]0;title\x07",
    "clipboard, with C1": "\x9d52;c;aGk=\x9c",
    "one byte CSI": "\x9b2J",
    "new line": "a\nok    home: fine",
    "carriage return": "visible\rhidden",
    "backspace and DEL": "rm\x08\x7f",
    "right to left": "txt\u202eexe",
    "isolate": "\u2066x\u2069",
    "line separator": "a\u2028b",
    "tag beyond the first plane": "x\U000e0041",
}
ESCAPED = {
    "closing markup": "[/nope]",
    "opening markup": "[bold red]x[link=http://x.example]",
    "colours": "\\x1b[31mred",
    "window title": "\\x1b]0;title\\x07",
    "clipboard, with C1": "\\x9d52;c;aGk=\\x9c",
    "one byte CSI": "\\x9b2J",
    "new line": "a\\nok    home: fine",
    "carriage return": "visible\\rhidden",
    "backspace and DEL": "rm\\x08\\x7f",
    "right to left": "txt\\u202eexe",
    "isolate": "\\u2066x\\u2069",
    "line separator": "a\\u2028b",
    "tag beyond the first plane": "x\\U000e0041",
}
NAMES = pytest.mark.parametrize("name", HOSTILE)


def lines_are_printable(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@NAMES
def test_what_is_not_printable_is_written_as_an_escape(name: str) -> None:
    assert printable(HOSTILE[name]) == ESCAPED[name]


@NAMES
def test_a_line_of_the_log_for_people_contains_escapes(name: str) -> None:
    read_end, write_end = os.pipe()
    Log(as_json=False, descriptor=write_end).event("warning", "a token is refused", token=HOSTILE[name])
    os.close(write_end)
    with open(read_end, "rb") as written:
        assert written.read().decode().partition(" ")[2] == f"warning a token is refused token={ESCAPED[name]}\n"


def test_ordinary_text_is_unchanged() -> None:
    assert printable("Größe 漢字 🙂 \\x1b") == "Größe 漢字 🙂 \\x1b"


@NAMES
def test_a_table(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table([{"name": HOSTILE[name]}], output.columns("name"))
    shown = capsys.readouterr().out
    assert ESCAPED[name] in shown and lines_are_printable(shown)


@NAMES
def test_a_record(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.print_record({"a": {HOSTILE[name]: HOSTILE[name]}})
    shown = capsys.readouterr().out
    assert f"a.{ESCAPED[name]}" in shown and lines_are_printable(shown)


@NAMES
def test_a_styled_line(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    output.print_styled((HOSTILE[name], "green"), (HOSTILE[name], ""))
    assert capsys.readouterr().out == f"{ESCAPED[name] * 2}\n"


@NAMES
def test_a_line_and_a_note(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.print_line(HOSTILE[name])
    output.print_note(HOSTILE[name])
    shown = capsys.readouterr()
    assert shown.out == f"{ESCAPED[name]}\n"
    assert shown.err == f"{ESCAPED[name]}\n".replace("\\n", "\n")  # a message may have several lines


@NAMES
def test_json_is_printable_and_means_the_same(name: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    value: Any = {HOSTILE[name]: [HOSTILE[name]]}
    output.print_json(value)
    shown = capfdbinary.readouterr().out.decode()
    assert json.loads(shown) == value and lines_are_printable(shown)


def test_a_token_whose_name_is_markup(home: Path) -> None:
    """Such a name made `token list` fail."""
    assert run_command(home, "token", "create", "[/nope]").returncode == 0
    listed = run_command(home, "token", "list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "[/nope]" in listed.stdout


def test_an_error_does_not_repeat_control_characters(home: Path) -> None:
    run_command(home, "token", "create", "t")
    refused = run_command(home, "relayer", "show", "\x1b]0;title\x07")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "relaydeck: the identifier in the path must not contain control characters\n"


def test_an_export_is_printable_and_means_the_same(home: Path) -> None:
    network = '[networks."a\\u202eb"]\nnetwork_type = "evm"\nchain_id = 1\nnative_symbol = "E\\u2028"\n'
    assert run_command(home, "apply", "-", stdin=network).returncode == 0
    exported = run_command(home, "export").stdout
    assert lines_are_printable(exported)
    assert run_command(home, "apply", "-", stdin=exported).stdout.startswith("nothing to change")


def test_a_record_is_one_line_when_it_is_not_printed_on_a_terminal(home: Path) -> None:
    name, url = "n" * 200, "https://hooks.example.com/" + "x" * 900
    document = json.dumps({"id": name, "type": "webhook", "url": url})
    assert run_command(home, "token", "create", "t").returncode == 0
    assert run_command(home, "notification", "create", "--from", "-", stdin=document).returncode == 0
    (line,) = [line for line in run_command(home, "notification", "list").stdout.splitlines() if "nnn" in line]
    assert name in line and url in line
    (line,) = [line for line in run_command(home, "notification", "show", name).stdout.splitlines() if "xxx" in line]
    assert url in line


@pytest.mark.parametrize(("count", "shown"), [(5, True), (4, False)])
def test_a_wait_for_much_work_elsewhere_shows_a_moving_bar(
    monkeypatch: pytest.MonkeyPatch, count: int, shown: bool
) -> None:
    terminal, other_end = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with open(other_end, "w", encoding="utf-8") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        with output.progress_bar("the server applies the file", count, at_least=5, elsewhere=True):
            pass
        stderr.write("end")
        stderr.flush()
        written = os.read(terminal, 65_536)
        while not written.endswith(b"end"):
            written += os.read(terminal, 65_536)
    os.close(terminal)
    assert (b"the server applies the file" in written) is shown
