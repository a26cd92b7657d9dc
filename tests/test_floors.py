"""Imports only go down: faces, then provisioning, then resources, then the ground."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "relaydeck"

FLOORS = [
    {"store", "networks", "http"},
    {"signers", "relayers", "notifications", "fees"},
    {"provisioning"},
    {"contract", "admin", "console", "cli"},
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
GROUND, RESOURCES, FACES = 0, 1, 3
SEE_EVERYTHING = {"app", "operations_worker", "cli", "__main__"}


def room_of(module: str) -> str:
    """`relaydeck.store.sealing` -> `store`; the package itself -> ``."""
    return module.split(".")[1] if "." in module else ""


def imported(path: Path, module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            assert node.module is not None
            yield node.module
            if node.module == "relaydeck":
                yield from (f"relaydeck.{alias.name}" for alias in node.names)


def imports() -> list[tuple[str, str]]:
    """Every import of one module of ours by another, as (importer, imported)."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(["relaydeck", *path.relative_to(PACKAGE).with_suffix("").parts])
        module = module.removesuffix(".__init__")
        names = set(imported(path, module))
        found += [(module, name) for name in sorted(names) if name == "relaydeck" or name.startswith("relaydeck.")]
    return found


IMPORTS = imports()


def test_there_is_something_to_look_at() -> None:
    assert ("relaydeck.contract.operations", "relaydeck.store.writer") in IMPORTS


def test_every_room_has_a_floor() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert rooms <= set(FLOOR_OF)


def test_imports_only_go_down() -> None:
    upward = [
        (importer, name)
        for importer, name in IMPORTS
        if room_of(importer) not in SEE_EVERYTHING
        and FLOOR_OF.get(room_of(name), GROUND) > FLOOR_OF.get(room_of(importer), GROUND)
    ]
    assert upward == []


def test_only_app_and_cli_import_app() -> None:
    assert {room_of(importer) for importer, name in IMPORTS if name == "relaydeck.app"} <= SEE_EVERYTHING


@pytest.mark.parametrize("face", sorted(FLOORS[FACES] - {"cli"}))
@pytest.mark.parametrize("other", sorted(FLOORS[FACES]))
def test_a_face_does_not_import_another(face: str, other: str) -> None:
    if face != other:
        assert [each for each in IMPORTS if (room_of(each[0]), room_of(each[1])) == (face, other)] == []


@pytest.mark.parametrize("room", sorted(FLOORS[RESOURCES]))
def test_a_resource_never_imports_http(room: str) -> None:
    assert [each for each in IMPORTS if (room_of(each[0]), room_of(each[1])) == (room, "http")] == []


def test_the_store_imports_no_other_room() -> None:
    rooms = {room_of(name) for importer, name in IMPORTS if room_of(importer) == "store"}
    assert rooms & set(FLOOR_OF) == {"store"}


def test_networks_do_not_import_http() -> None:
    assert [each for each in IMPORTS if (room_of(each[0]), room_of(each[1])) == ("networks", "http")] == []


def test_root_modules_import_no_room() -> None:
    """`app` and the command alone see the rooms; what every room may use stands on nothing."""
    roots = {path.stem for path in PACKAGE.glob("*.py")} - SEE_EVERYTHING
    assert [each for each in IMPORTS if room_of(each[0]) in roots and room_of(each[1]) in FLOOR_OF] == []
