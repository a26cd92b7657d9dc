"""Reads from a documentation page its commands, what they print, and which blocks cannot run.

A block of `sh`, or one that begins with `$ `, is commands. Lines after a `$ ` command are its output; so is a block of
`json`, `http` or `text` right after commands. Comments of the page, which readers do not see, say the rest:

    <!-- run: COMMANDS -->        commands that the page need not show, such as what it starts from
    <!-- file: NAME -->           the next block is the content of this file
    <!-- name: TEXT is COMMAND --> what the page calls TEXT is what the command prints here
    <!-- settings: -->            the next block is a settings file
    <!-- tested by: FILE -->      a test of its own runs the next block, or with ` for LANGUAGES` all blocks of these
    <!-- not run: REASON -->      the next block cannot run here
    <!-- service: NAME=VALUE -->  a setting of the service of this page; `node` and `postgres` start those, too

In output, `…` stands for any text of a line, and a line `…` for any lines. Moments, ids and hashes differ each time.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_PART = re.compile(
    r"^<!-- (?P<word>run|name|file|settings|tested by|not run|service):(?P<value>.*?)-->\n"
    r"|^(?P<indent> *)```(?P<language>\w*)\n(?P<content>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_OUTPUT = ("json", "http", "text")


class Step(NamedTuple):
    """A block, or a comment that says what to do.

    `output` is what the page shows, None where it shows nothing. Without a `command` it is that of the step before.
    """

    place: str
    command: str = ""
    output: str | None = None
    file: str = ""  # whose content is `content`
    content: str = ""
    called: str = ""  # what the page calls the output
    elsewhere: str = ""  # why it is not run, or the test that does


class Page(NamedTuple):
    name: str
    steps: list[Step]
    service: dict[str, str]


def read_page(path: Path, name: str) -> Page:
    """Raises ValueError for a block that is none of the above."""
    text, found, settings = path.read_text("utf-8"), list[Step](), dict[str, str]()
    said, elsewhere = dict[str, str](), dict[str, str]()
    end = 0
    for part in _PART.finditer(text):
        place = f"{name}:{text.count(chr(10), 0, part.start()) + 1}"
        word, value = part["word"], (part["value"] or "").strip()
        if word == "run":
            found.append(Step(place, value))
        elif word == "name":
            called, _, command = value.partition(" is ")
            found.append(Step(place, command, called=called))
        elif word == "tested by" and " for " in value:
            test, _, languages = value.partition(" for ")
            elsewhere |= dict.fromkeys(languages.split(), test)
        elif word == "service":
            settings |= dict(each.strip().partition("=")[::2] for each in value.split(","))
        elif word:
            said = {word: value}
        else:
            content = re.sub(f"^{part['indent']}", "", part["content"], flags=re.MULTILINE)
            follows = not text[end : part.start()].strip() and end
            if not said and part["language"] in elsewhere:
                said = {"tested by": elsewhere[part["language"]]}
            found += _steps(place, part["language"], content, said, found[-1] if follows and found else None)
            said = {}
        end = part.end()
    return Page(name, found, settings)


def _steps(place: str, language: str, content: str, said: Mapping[str, str], before: Step | None) -> Iterator[Step]:
    if "settings" in said:
        check = 'relaydeck audit head --home "$RELAYDECK_HOME" --config settings.toml'
        yield Step(place, check, file="settings.toml", content=content)
    elif "file" in said:
        yield Step(place, file=said["file"], content=content)
    elif said:
        yield Step(place, elsewhere=said.get("not run") or f"see {said['tested by']}")
    elif content.startswith("$ "):
        for each in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
            lines = each.splitlines()
            length = next(number for number, line in enumerate(lines, 1) if not line.endswith("\\"))
            yield Step(place, "\n".join(lines[:length]), "\n".join(lines[length:]) or None)
    elif language == "sh":
        yield Step(place, content)
    elif language in _OUTPUT and before and before.command:
        yield Step(place, output=content)
    else:
        raise ValueError(f"{place}: this block says neither what it is nor why it is not run")
