"""No assertion of a test or of the benchmark can hold whatever the code does, as far as its text shows that."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
FILES = sorted(
    str(path.relative_to(ROOT))
    for folder in ("tests", "bench")
    for path in (ROOT / folder).rglob("*.py")
    if "node_modules" not in path.parts
)
BROAD = ("Exception", "BaseException", "AssertionError")
DEFAULTS = ("get", "getattr", "next", "pop", "setdefault")  # their last argument answers if nothing else does
ALWAYS_TRUE = (ast.GeneratorExp, ast.JoinedStr, ast.Lambda, ast.Tuple)

BARE_OR = "one side of `or` is a value, which holds for nearly anything: compare it"
SAME = "both sides are the same expression"
DEFAULT = "the default is the expected value: nothing has to be there"
TRUE = "always true"
EMPTY = "`all` holds for nothing at all: compare {… for … in …} with {True}"
TOO_BROAD = "any mistake raises this: name the exception"
SWALLOWED = "the failure of this assertion is caught"
NOT_REACHED = "not reached: what is expected to raise comes before it"
EVERYWHERE = "an empty text is part of every other"


def faults(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Assert():
                yield from ((node.lineno, each) for each in faults_of(node.test))
            case ast.Call(args=[expected, *_]) if is_raises(node) and name_of(expected) in BROAD[:2]:
                yield node.lineno, TOO_BROAD
            case ast.With() | ast.AsyncWith() if any(is_raises(each.context_expr) for each in node.items):
                if isinstance(node.body[-1], ast.Assert) and len(node.body) > 1:
                    yield node.body[-1].lineno, NOT_REACHED
            case ast.With() | ast.AsyncWith() if any(suppresses_failures(each.context_expr) for each in node.items):
                yield from ((line, SWALLOWED) for line in asserted(node.body))
            case ast.Try(handlers=handlers) if any(map(catches_failures, handlers)):
                yield from ((line, SWALLOWED) for line in asserted(node.body))


def faults_of(test: ast.expr) -> Iterator[str]:
    if isinstance(test, ALWAYS_TRUE) or (isinstance(test, ast.Constant) and test.value):
        yield TRUE
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) and any(map(is_bare, test.values)):
        yield BARE_OR
    for node in ast.walk(test):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
                yield from faults_between(operator, left, right)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "all" and may_be_empty(node.args[0]):
            yield EMPTY


def faults_between(operator: ast.cmpop, left: ast.expr, right: ast.expr) -> Iterator[str]:
    if is_same(left, right) and not any(isinstance(each, ast.Call | ast.Await) for each in ast.walk(left)):
        yield SAME
    if isinstance(operator, ast.Eq | ast.Is) and any(
        is_same(given, other) for call, other in ((left, right), (right, left)) for given in default_of(call)
    ):
        yield DEFAULT
    if isinstance(operator, ast.In) and isinstance(left, ast.Constant) and left.value in ("", b""):
        yield EVERYWHERE


def is_same(left: ast.AST, right: ast.AST) -> bool:
    return ast.dump(left) == ast.dump(right)


def default_of(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Call) and len(node.args) > 1 and name_of(node.func) in DEFAULTS:
        return node.args[-1:] if name_of(node.func) != "getattr" or len(node.args) == 3 else []
    return []


def is_bare(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript) or bool(default_of(node))


def may_be_empty(node: ast.expr) -> bool:
    """Constants, which are written in capitals, and what is spelled out have items."""
    match node:
        case ast.GeneratorExp(generators=[first, *_]):
            return bool(first.ifs) or may_be_empty(first.iter)
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return not items
        case ast.Call(func=ast.Name(id="zip" | "enumerate" | "sorted"), args=given):
            return all(map(may_be_empty, given))
        case ast.Call(func=ast.Attribute(value=of, attr="items" | "keys" | "values")) | ast.Subscript(value=of):
            return may_be_empty(of)
        case _:
            return not name_of(node).isupper()


def name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_raises(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and name_of(node.func) == "raises"


def suppresses_failures(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and name_of(node.func) == "suppress"
        and any(name_of(each) in BROAD for each in node.args)
    )


def catches_failures(handler: ast.ExceptHandler) -> bool:
    """Without raising anything."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    is_broad = any(each is None or name_of(each) in BROAD for each in caught)
    return is_broad and not any(isinstance(node, ast.Raise) for each in handler.body for node in ast.walk(each))


def asserted(body: list[ast.stmt]) -> list[int]:
    return [node.lineno for each in body for node in ast.walk(each) if isinstance(node, ast.Assert)]


BAD = {
    "assert getattr(record, 'id', None) or record.name == name": BARE_OR,
    "assert record.id or record.name == name": BARE_OR,
    "assert found[0] == 1 or found": BARE_OR,
    "assert a.b == a.b": SAME,
    "assert 1 < x <= x": SAME,
    "assert headers.get('age', 3) == 3": DEFAULT,
    "assert None is getattr(record, 'id', None)": DEFAULT,
    "assert next(found, '') == ''": DEFAULT,
    "assert (a == b, 'why')": TRUE,
    "assert (each for each in found)": TRUE,
    "assert f'{a} == {b}'": TRUE,
    "assert 'text'": TRUE,
    "assert all(each > 1 for each in found)": EMPTY,
    "assert all(each > 1 for each in [] + found)": EMPTY,
    "assert all(each > 1 for each in LIMITS if each)": EMPTY,
    "assert all(found)": EMPTY,
    "assert '' in text": EVERYWHERE,
    "with pytest.raises(Exception, match='half'):\n  work()": TOO_BROAD,
    "with raises(BaseException):\n  work()": TOO_BROAD,
    "with pytest.raises(ValueError):\n  work()\n  assert a == b": NOT_REACHED,
    "with suppress(OSError, Exception):\n  work()\n  assert a == b": SWALLOWED,
    "try:\n  assert a == b\nexcept Exception:\n  pass": SWALLOWED,
    "try:\n  assert a == b\nexcept (OSError, AssertionError):\n  log()": SWALLOWED,
    "try:\n  assert a == b\nexcept:\n  pass": SWALLOWED,
}
GOOD = [
    "assert cache.rate(token) is cache.rate(token)",
    "assert tag != 'script' or source.startswith('/')",
    "assert not given or found == given",
    "assert path.is_dir() or secret not in path.read_bytes()",
    "assert headers.get('age', '') == '3'",
    "assert getattr(settings, name) == name",
    "assert all(each in page for each in NAMES)",
    "assert all(word in table for word in ('a', 'b'))",
    "assert all(LIMITS[name] for name in LIMITS.keys())",
    "assert {each > 1 for each in found} == {True}",
    "with pytest.raises(ValueError, match='half'):\n  work()",
    "assert transaction.all(sql) == []",
    "with pytest.raises(Undone), step():\n  assert a == b\n  raise Undone",
    "try:\n  assert a == b\nexcept OSError:\n  pass",
    "try:\n  assert a == b\nexcept BaseException:\n  stop()\n  raise",
]


@pytest.mark.parametrize("text", BAD)
def test_such_an_assertion_is_found(text: str) -> None:
    assert [fault for _, fault in faults(ast.parse(text))] == [BAD[text]]


@pytest.mark.parametrize("text", GOOD)
def test_such_an_assertion_can_fail(text: str) -> None:
    assert list(faults(ast.parse(text))) == []


def test_every_assertion_can_fail() -> None:
    found = [
        f"{file}:{line}: {fault}"
        for file in FILES
        for line, fault in faults(ast.parse((ROOT / file).read_text("utf-8")))
    ]
    assert found == []
