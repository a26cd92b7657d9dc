"""Imports only go down the layers, and no package needs itself through others.

An import counts wherever it stands: at the top, in a function, under TYPE_CHECKING, as the name of one of our modules
in a string, which is how code is loaded late (`import_module`), or as an entry point in `pyproject.toml`.
"""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "relaydeck"
DRIVER_LOADER = "relaydeck.signers.drivers.registry"  # loads the entry points

INFRASTRUCTURE = {"store", "scheduling", "networks", "http"}
DOMAIN = {"signers", "relayers", "notifications", "fees", "credentials"}
SERVICES = {"provisioning", "doctor"}
DESCRIPTION = {"api"}
INTERFACES = {"contract", "admin", "console", "cli"}
BASICS = {"settings", "outgoing", "process"}  # as the modules of the root: they need no layer
STANDALONE = {"client", "conformance"}  # used without the server, so they import nothing of it
LAYERS = [INFRASTRUCTURE, DOMAIN, SERVICES, DESCRIPTION, INTERFACES]
LAYER_OF = {package: layer for layer, packages in enumerate(LAYERS) for package in packages}
WIRING = {"worker", "__main__"}  # connect every layer to one process
SEES_EVERYTHING = WIRING | {"cli"}

Edge = tuple[str, str]


def module_name(path: Path) -> str:
    return ".".join(["relaydeck", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def package_of(module: str) -> str:
    """`relaydeck.store.sealing` -> `store`; a module of the root -> its own name; the root itself -> ``."""
    return module.split(".")[1] if "." in module else ""


def imported(source: str) -> Iterator[str]:
    """The modules of ours that a source text imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            yield from _imported_from(node)
        elif isinstance(node, ast.Constant) and node.value in MODULES:
            yield str(node.value)


def _imported_from(node: ast.ImportFrom) -> Iterator[str]:
    assert node.level == 0 and node.module is not None, "imports are absolute"
    for alias in node.names:
        submodule = f"{node.module}.{alias.name}"
        name = submodule if submodule in MODULES else node.module
        if name in MODULES:
            yield name


def unnamed_dynamic_imports(source: str) -> list[int]:
    """Lines that import a module by a name computed at run time, which no reader of the source can follow."""
    tree = ast.parse(source)
    constants = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _computes_name(node, constants)]


def _computes_name(call: ast.Call, constants: set[str]) -> bool:
    """Whether the call imports dynamically, itself or through `to_thread`, and its name is no constant."""
    for function, name in zip([call.func, *call.args], [*call.args, None], strict=True):
        spelled = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if spelled in ("import_module", "__import__"):
            return not (isinstance(name, ast.Constant) or (isinstance(name, ast.Name) and name.id in constants))
    return False


def entry_points() -> list[Edge]:
    """What is loaded through entry points counts as an import by the module that loads it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    drivers = project["entry-points"]["relaydeck.drivers"].values()
    return [(DRIVER_LOADER, driver.split(":")[0]) for driver in drivers]


@cache
def all_imports() -> list[Edge]:
    in_sources = [
        (module, name) for module, path in MODULES.items() for name in sorted(set(imported(path.read_text("utf-8"))))
    ]
    return [*in_sources, *entry_points()]


def edges(source: set[str], target: set[str]) -> list[Edge]:
    """The imports from a package of `source` to another package, of `target`."""
    return [
        (importer, name)
        for importer, name in all_imports()
        if package_of(importer) in source and package_of(name) in target and package_of(importer) != package_of(name)
    ]


def cycle(imports: list[Edge]) -> list[str]:
    graph: dict[str, set[str]] = {}
    for importer, name in imports:
        if importer != name:
            graph.setdefault(importer, set()).add(name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


# -- the rules ------------------------------------------------------------------------------------


def test_every_package_has_a_layer() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if any(path.glob("*.py"))}
    assert packages <= set(LAYER_OF) | BASICS | STANDALONE | WIRING


def test_imports_only_go_down() -> None:
    upward = [
        (importer, name)
        for importer, name in edges(set(LAYER_OF) - SEES_EVERYTHING, set(LAYER_OF))
        if LAYER_OF[package_of(name)] > LAYER_OF[package_of(importer)]
    ]
    assert upward == []


def test_packages_do_not_need_each_other_in_a_circle() -> None:
    assert cycle([(package_of(importer), package_of(name)) for importer, name in all_imports() if "." in name]) == []


def test_modules_do_not_need_each_other_in_a_circle() -> None:
    assert cycle(all_imports()) == []


def test_interfaces_do_not_import_each_other() -> None:
    """The command alone starts the others."""
    assert edges(INTERFACES - {"cli"}, INTERFACES) == []


def test_the_domain_does_not_import_http() -> None:
    assert edges(DOMAIN, {"http"}) == []


def test_the_store_imports_no_other_package() -> None:
    assert edges({"store"}, set(LAYER_OF) | STANDALONE) == []


def test_networks_do_not_import_http() -> None:
    assert edges({"networks"}, {"http"}) == []


def test_standalone_packages_import_nothing_of_the_server() -> None:
    server = {package_of(module) for module in MODULES} - STANDALONE - {""}
    assert edges(STANDALONE, server) == []


def test_basics_import_no_layer() -> None:
    """What every package may use needs none of them."""
    roots = {path.stem for path in PACKAGE.glob("*.py")} - SEES_EVERYTHING
    assert edges(roots | BASICS, set(LAYER_OF) | STANDALONE) == []


def test_only_the_command_imports_what_wires() -> None:
    assert edges(set(LAYER_OF) - {"cli"}, WIRING) == []


def test_every_dynamic_import_names_its_module() -> None:
    found = {module: unnamed_dynamic_imports(path.read_text("utf-8")) for module, path in MODULES.items()}
    assert {module: lines for module, lines in found.items() if lines} == {}


# -- that the rules can fail ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "import relaydeck.store.writer",
        "from relaydeck.store.writer import Writer",
        "from relaydeck.store import writer",
        "def late():\n    from relaydeck.store.writer import Writer",
        "if TYPE_CHECKING:\n    from relaydeck.store.writer import Writer",
        "import_module('relaydeck.store.writer')",
        "_LATE = 'relaydeck.store.writer'\nimport_module(_LATE)",
    ],
)
def test_every_kind_of_import_is_found(source: str) -> None:
    assert set(imported(source)) == {"relaydeck.store.writer"}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import_module('redis.asyncio')", []),
        ("_LATE = 'redis.asyncio'\nimport_module(_LATE)", []),
        ("to_thread(import_module, 'redis.asyncio')", []),
        ("import_module(f'relaydeck.{name}')", [1]),
        ("importlib.import_module('relaydeck.' + name)", [1]),
        ("\nto_thread(import_module, name)", [2]),
        ("__import__(name)", [1]),
    ],
)
def test_a_computed_name_is_found(source: str, lines: list[int]) -> None:
    assert unnamed_dynamic_imports(source) == lines


def test_a_circle_is_found() -> None:
    assert set(cycle([("a", "b"), ("b", "c"), ("c", "a")])) == {"a", "b", "c"}


def test_imports_of_the_package_are_found() -> None:
    assert ("relaydeck.contract.operations", "relaydeck.store.audit") in all_imports()


def test_entry_points_are_imports_of_modules_that_exist() -> None:
    assert {name for _, name in entry_points()} <= MODULES.keys()
    assert (DRIVER_LOADER, "relaydeck.signers.drivers.aws_kms") in all_imports()


def test_every_group_of_entry_points_is_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"].keys() == {"relaydeck.drivers"}
