"""The table in `docs/conformance.md`: each sentence of the contract with its code, its tests and its checks.

Comments of the form `# sentence: KEY KEY` mark code and tests. One above a function or class belongs to it; any other
belongs to the function, the class or the module around it.
"""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pages.contract_sentences import SENTENCES, Sentence
from relaydeck.conformance.probe import Check
from relaydeck.conformance.run import checks

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "conformance.md"
_BEGIN, _END = "<!-- sentences: written by make docs -->", "<!-- end of sentences -->"
_MARK = re.compile(r"# sentence: (.+)")
_WHERE = re.compile(r"\| ([^|]*) \| [^|]* \|$")
_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Place(NamedTuple):
    file: str  # relative to its tree
    name: str  # of a function or class; empty for the module


@cache
def marks(tree: Path) -> dict[str, list[Place]]:
    """The places in a tree of source files that are marked with each key."""
    found: defaultdict[str, list[Place]] = defaultdict(list)
    for path in sorted(tree.rglob("*.py")):
        text = path.read_text("utf-8")
        if "# sentence: " in text:
            named = [node for node in ast.walk(ast.parse(text)) if isinstance(node, _Named)]
            for line, keys in _marks_in(text):
                place = Place(path.relative_to(tree).as_posix(), _name_at(named, text, line))
                for key in keys:
                    found[key].append(place)
    return dict(found)


def _marks_in(text: str) -> Iterator[tuple[int, list[str]]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and (mark := _MARK.fullmatch(token.string)):
            yield token.start[0], mark[1].split()


def _name_at(named: Sequence[_Named], text: str, line: int) -> str:
    """The function or class that begins below a comment on this line, else the innermost one around it."""
    lines = text.splitlines()
    below = next((at for at in range(line, len(lines)) if not lines[at].lstrip().startswith("#")), line) + 1
    for node in named:
        if min([node.lineno, *(each.lineno for each in node.decorator_list)]) == below:
            return node.name
    around = [node for node in named if node.lineno <= line <= (node.end_lineno or 0)]
    return around[-1].name if around else ""


def ruled_in(item: str) -> str:
    """Where a ruling is implemented, as its row of the open items says."""
    page = (ROOT / "docs" / "open-items.md").read_text("utf-8")
    row = next(line for line in page.splitlines() if line.startswith(f"| {item} | "))
    found = _WHERE.search(row)
    assert found is not None, row
    return found[1]


def held_by() -> dict[str, list[Check]]:
    """The checks of the kit that hold each sentence."""
    found: defaultdict[str, list[Check]] = defaultdict(list)
    for check in checks():
        for key in check.sentences:
            found[key].append(check)
    return dict(found)


def table() -> str:
    code, tests, kit = marks(ROOT / "src" / "relaydeck"), marks(ROOT / "tests"), held_by()
    rows = [
        "| section | sentence | basis | implemented in | test | check |",
        "|---|---|---|---|---|---|",
        *(_row(each, code, tests, kit) for each in SENTENCES.values()),
    ]
    return "\n".join(rows)


def _row(
    sentence: Sentence, code: dict[str, list[Place]], tests: dict[str, list[Place]], kit: dict[str, list[Check]]
) -> str:
    where = ruled_in(sentence.item) if sentence.is_open else _listed(code.get(sentence.key, []))
    checked = ", ".join(f"`{check.name}`" for check in kit.get(sentence.key, [])) or f"none: {sentence.unseen}"
    text = f"Open: {sentence.text}" if sentence.is_open else sentence.text
    basis = "ruling" if sentence.is_open else "contract"
    return f"| {sentence.section} | {text} | {basis} | {where} | {_listed(tests.get(sentence.key, []))} | {checked} |"


def _listed(places: list[Place]) -> str:
    """Each file with the names in it."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for place in dict.fromkeys(places):
        names[place.file] += [f"`{place.name}`"] if place.name else []
    return "; ".join(" ".join([f"`{file}`", ", ".join(each)]).strip() for file, each in names.items())


def page() -> str:
    """The page with its table as it should be."""
    before, _, rest = PAGE.read_text("utf-8").partition(_BEGIN)
    return f"{before}{_BEGIN}\n\n{table()}\n\n{_END}{rest.partition(_END)[2]}"
