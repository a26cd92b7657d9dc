"""Finds the tier of each test from what its code and its fixtures reach, so that nobody has to remember a marker.

`quick` tests start no process, and are in no module that is marked `slow` because it takes seconds of the processor.
`tools` tests run programs that neither PyPI nor npm provides. `prove` marks the slow proofs. The rest is what
`make test` adds to the quick ones. A test that does more than its tier allows fails.
"""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest

QUICK, TEST, TOOLS, PROVE = "quick", "test", "tools", "prove"
SLOW = "pytestmark = pytest.mark.slow"  # of a module
# Compiled with Go, or from Debian's packages. `make prove` puts them below .venv.
_PROGRAMS = frozenset({"server", "geth", "dex", "prometheus", "promtool", "nginx", "haproxy", "pgbouncer"})
_BROWSER = "playwright"
_STARTERS = frozenset({"subprocess", "multiprocessing", "pty"})
_FOLLOWED = frozenset({"tests", "pages"})
_OWN = frozenset({"relaydeck", "bench"}) | _FOLLOWED
_STARTING = frozenset({"fork", "posix_spawn", "execv", "execve", "create_subprocess_exec", "create_subprocess_shell"})
_ROOT = Path(__file__).parents[2]
_IMPORTS_STARTER = re.compile(rf"^ *(?:import|from) (?:{'|'.join(_STARTERS)})\b", re.MULTILINE)
_IMPORTED = re.compile(r"^ *(?:from|import) (tests\.[\w.]+)", re.MULTILINE)
# Values of parameters with which a fixture does not ask for Vault. (Tests of both databases stay together: with SQLite
# too, they are not quick.)
_WITHOUT_SERVER = frozenset({"local", "aws-kms", "google-kms", "turnkey", "cdp"})
_EVENTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec"})


def mark(items: Iterable[pytest.Item]) -> None:
    """Add the marker of its tier to each test that needs one."""
    functions = [item for item in items if isinstance(item, pytest.Function)]
    graph = _Graph()
    roots = {id(item): [item.function, *_fixtures(item), *_parameters(item)] for item in functions}
    for each in roots.values():
        graph.add(each)
    tools, processes = graph.reaching(_is_tool), graph.reaching(_starts_process)
    for item in functions:
        reached = {id(inspect.unwrap(root)) for root in roots[id(item)]}
        if item.get_closest_marker(PROVE) is None:
            is_quick = not reached & processes and may_be_quick(item.path)
            item.add_marker(TOOLS if reached & tools else QUICK if is_quick else TEST)


def may_be_quick(path: Path) -> bool:
    """Whether a module is not slow, and imports nothing that starts processes. `make quick` does not load others."""
    if SLOW in _text(path):
        return False
    waiting, seen = [path], set[Path]()
    while waiting:
        seen.add(each := waiting.pop())
        text = _text(each)
        if _IMPORTS_STARTER.search(text):
            return False
        waiting += [found for name in _IMPORTED.findall(text) if (found := _file(name)) and found not in seen]
    return True


@cache
def _text(path: Path) -> str:
    return path.read_text("utf-8")


@cache
def _file(module: str) -> Path | None:
    path = _ROOT.joinpath(*module.split("."))
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.exists()), None)


def tier(item: pytest.Item) -> str:
    (found,) = {mark.name for mark in item.iter_markers()} & {QUICK, TEST, TOOLS, PROVE}
    return found


@contextmanager
def limited_to_its_tier(item: pytest.Item) -> Iterator[None]:
    """While it runs, a test may start only what its tier allows."""
    _running.append(tier(item))
    try:
        yield
    finally:
        _running.pop()


def _refuse_other_programs(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _EVENTS or not _running:
        return
    program = Path(os.fsdecode(arguments[0])) if arguments else Path(sys.executable)
    if _running[-1] == QUICK or (_running[-1] == TEST and _is_tool(program)):
        raise RuntimeError(f"a test of the tier {_running[-1]} starts {program.name}")


_running: list[str] = []
sys.addaudithook(_refuse_other_programs)


def _fixtures(item: pytest.Function) -> tuple[Callable[..., Any], ...]:
    asks = not {value for value in _parameters(item) if isinstance(value, str)} & _WITHOUT_SERVER
    place = _Place(item.cls, item.module, item.path.parent, item.config.pluginmanager)
    return _all_fixtures(place, tuple(item.fixturenames), asks)


class _Place(NamedTuple):
    """Of a test: where its fixtures are looked for."""

    cls: type | None
    module: ModuleType
    folder: Path
    plugins: pytest.PytestPluginManager


@cache
def _all_fixtures(place: _Place, asked: tuple[str, ...], asks_by_name: bool) -> tuple[Callable[..., Any], ...]:
    """Thousands of tests differ in nothing but their parameters."""
    names, found = list(asked), dict[str, Callable[..., Any]]()
    while names:
        name = names.pop()
        if name not in found and (definition := _definition(place, name)):
            found[name] = inspect.unwrap(definition)
            names += _asked_by_name(found[name]) if asks_by_name else []
    return tuple(found.values())


def _definition(place: _Place, name: str) -> Any:
    places = [place.cls, place.module, *_conftests(place.folder, place.plugins)]
    found = (vars(each).get(name) for each in places if each is not None)
    return next((each for each in found if getattr(each, "name", "") == name and hasattr(each, "__wrapped__")), None)


@cache
def _conftests(folder: Path, plugins: pytest.PytestPluginManager) -> list[ModuleType]:
    """The nearest first."""
    modules: dict[str, Any] = {str(name): plugin for name, plugin in plugins.list_name_plugin()}
    paths = (str(each / "conftest.py") for each in (folder, *folder.parents))
    return [modules[path] for path in paths if path in modules]


def _asked_by_name(fixture: Callable[..., Any]) -> list[str]:
    code = fixture.__code__
    if "getfixturevalue" not in set(_names(code)):
        return []
    return [value for value in _constants(code) if isinstance(value, str)]


def _parameters(item: pytest.Function) -> list[Any]:
    """What the test is given by name: also the parts of a module."""
    given = list(item.callspec.params.values()) if hasattr(item, "callspec") else []
    return [*given, *(part for each in given if isinstance(each, ModuleType) for part in vars(each).values())]


class _Graph:
    """Functions, classes, tables and paths of the tests, and which of them uses which."""

    def __init__(self) -> None:
        self._objects: dict[int, Any] = {}
        self._users: dict[int, set[int]] = {}

    def add(self, roots: Iterable[Any]) -> None:
        waiting = [inspect.unwrap(root) for root in roots]
        while waiting:
            user = waiting.pop()
            if id(user) in self._objects:
                continue
            self._objects[id(user)] = user
            for used in _used_by(user):
                self._users.setdefault(id(used), set()).add(id(user))
                waiting.append(used)

    def reaching(self, is_sought: Callable[[Any], bool]) -> set[int]:
        waiting = [key for key, each in self._objects.items() if is_sought(each)]
        found = set(waiting)
        while waiting:
            new = self._users.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found


def _is_tool(thing: Any) -> bool:
    if isinstance(thing, Path):
        return thing.name in _PROGRAMS and thing.is_relative_to(sys.prefix)
    return _module(thing) == _BROWSER


def _starts_process(thing: Any) -> bool:
    if _is_tool(thing) or _module(thing) in _STARTERS or getattr(thing, "__name__", "") in _STARTING:
        return True
    if not isinstance(thing, FunctionType | type) or _module(thing) not in _OWN:
        return False
    return any(hasattr(sys.modules[thing.__module__], name) for name in _STARTERS)


def _module(thing: Any) -> str:
    name = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None)
    return str(name).partition(".")[0]


def _used_by(thing: Any) -> list[Any]:
    if isinstance(thing, dict):
        used = list(thing.values())
    elif isinstance(thing, list | tuple | set | frozenset):
        used = list(thing)
    elif _module(thing) not in _FOLLOWED:
        return []
    elif isinstance(thing, FunctionType):
        used = [*_globals_of(thing), *(cell.cell_contents for cell in thing.__closure__ or () if _is_set(cell))]
    elif isinstance(thing, type):
        used = [*thing.__bases__, *(_function_of(each) for each in vars(thing).values())]
    else:
        used = [] if isinstance(thing, ModuleType) else [type(thing)]
    return [inspect.unwrap(each) if callable(each) else each for each in used]


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a name that is not assigned yet
        return False


def _function_of(member: Any) -> Any:
    """A method as it was written, be it a property, a static or a class method."""
    return getattr(member, "fget", None) or getattr(member, "func", None) or getattr(member, "__func__", member)


def _globals_of(function: FunctionType) -> Iterator[Any]:
    names = set(_names(function.__code__))
    known = function.__globals__
    imported = [import_module(name) for name in names if name.startswith("tests.")]
    for value in [*(known[name] for name in names if name in known), *imported]:
        yield value
        if isinstance(value, ModuleType):
            parts = (vars(value)[name] for name in names if name in vars(value))
            yield from (part for part in parts if callable(part) or _module(value) in _FOLLOWED)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _constants(code: CodeType) -> Iterator[Any]:
    for value in code.co_consts:
        yield from _constants(value) if isinstance(value, CodeType) else [value]
