"""`docs/reference/json.md`: what each command prints with `--json`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from pages.openapi.admin import document
from pages.openapi.names import schema_name
from relaydeck.cli.commands import cli
from relaydeck.cli.options import JsonOption, Printed
from relaydeck.cli.output import Shape

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "json.md"
_INTRODUCTION = """# JSON output

Every command has `--json`, for programs. It prints one JSON value on standard output; notes, progress and errors stay
on standard error, and the exit code is the same as without it. `relaydeck event tail` prints an object on each line,
and `relaydeck serve` logs in lines of JSON on standard error. A later version may add fields.

`make docs` writes this page from the commands; a test compares the output of every command with it. A shape without a
link is a schema of the [admin API](../admin.md), in its document at `/admin/v1/openapi.json`.

| command | prints |
|---|---|
"""


def page() -> str:
    options = list(json_options())
    rows = [f"| `{path}` | {_described(option)} |" for path, option in options]
    shapes = {each for _, option in options for each in (option.shape, option.other) if each}
    return "\n".join([_INTRODUCTION + "\n".join(rows), "", *_sections(shapes)])


def json_options(command: click.Command = cli, path: str = "relaydeck") -> Iterator[tuple[str, JsonOption]]:
    """Every command with its option. Raises LookupError for a command without one."""
    if isinstance(command, click.Group):
        for name in sorted(command.list_commands(click.Context(command))):
            if not command.commands[name].hidden:
                yield from json_options(command.commands[name], f"{path} {name}")
        return
    options = [each for each in command.params if isinstance(each, JsonOption)]
    if not options:
        raise LookupError(f"{path} has no --json")
    yield path, options[0]


def schema_of_shape(shape: Printed, *, many: bool = False) -> dict[str, Any]:
    """The JSON Schema of what a command prints."""
    found, components = _schemas(shape)
    schema = {"type": "array", "items": found} if many else found
    return schema | {"components": {"schemas": components}}


def _schemas(shape: Printed) -> tuple[dict[str, Any], dict[str, Any]]:
    if issubclass(shape, Shape):
        (found,), components = msgspec.json.schema_components([shape], ref_template="#/components/schemas/{name}")
        return found, components
    return {"$ref": f"#/components/schemas/{schema_name(shape)}"}, document()["components"]["schemas"]


def _described(option: JsonOption) -> str:
    shown = _link(option.shape.__name__) if issubclass(option.shape, Shape) else f"`{schema_name(option.shape)}`"
    other = f"; {_link(option.other.__name__)}" if option.other else ""
    return (f"array of {shown}" if option.many else shown) + other + option.remark


def _link(name: str) -> str:
    return f"[`{name}`](#{name.lower()})"


def _sections(shapes: set[Printed]) -> list[str]:
    """Those of the shapes that only commands print, and of those inside them, by name."""
    components: dict[str, Any] = {}
    for each in shapes:
        if issubclass(each, Shape):
            components |= _schemas(each)[1]
    return [_section(name, components[name]) for name in sorted(components)]


def _section(name: str, schema: dict[str, Any]) -> str:
    rows = [
        f"| `{name}` | {_type(each)} | {each.get('description', '')} |" for name, each in schema["properties"].items()
    ]
    note = f"{schema['description']}\n\n" if "description" in schema else ""
    return f"## {name}\n\n{note}| field | type | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _type(schema: dict[str, Any]) -> str:
    """In words, for people."""
    if "anyOf" in schema or "allOf" in schema:
        return " or ".join(_type(each) for each in schema.get("anyOf") or schema["allOf"])
    if "$ref" in schema:
        return _link(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return " or ".join(f"`{msgspec.json.encode(each).decode()}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {_type(schema['items'])}"
    return str(schema["type"])
