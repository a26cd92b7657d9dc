"""The table in `docs/conformance.md`: each sentence of the contract with its code, its tests and its checks.

Comments of the form `# sentence: KEY KEY` mark code and tests. One above a function or class belongs to it; any other
belongs to the function, the class or the module around it.
"""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_MARK = re.compile(r"# sentence: (.+)")
_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Place(NamedTuple):
    file: str  # relative to its tree
    name: str  # of a function or class; empty for the module

    def __str__(self) -> str:
        return f"`{self.file}`" + (f" `{self.name}`" if self.name else "")


def marks(tree: Path) -> dict[str, list[Place]]:
    """The places in a tree of source files that are marked with each key."""
    found: defaultdict[str, list[Place]] = defaultdict(list)
    for path in sorted(tree.rglob("*.py")):
        text = path.read_text("utf-8")
        if "# sentence: " in text:
            for line, keys in _marks_in(text):
                for key in keys:
                    found[key].append(Place(path.relative_to(tree).as_posix(), _name_at(ast.parse(text), text, line)))
    return dict(found)


def _marks_in(text: str) -> Iterator[tuple[int, list[str]]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and (mark := _MARK.fullmatch(token.string)):
            yield token.start[0], mark[1].split()


def _name_at(tree: ast.Module, text: str, line: int) -> str:
    """The function or class that begins below a comment on this line, else the innermost one around it."""
    named = [node for node in ast.walk(tree) if isinstance(node, _Named)]
    lines = text.splitlines()
    below = next((at for at in range(line, len(lines)) if not lines[at].lstrip().startswith("#")), line) + 1
    for node in named:
        if min([node.lineno, *(each.lineno for each in node.decorator_list)]) == below:
            return node.name
    around = [node for node in named if node.lineno <= line <= (node.end_lineno or 0)]
    return around[-1].name if around else ""
