"""Writes `docs/reference/json.md`: what each command prints with `--json`."""

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from relaydeck.cli import json_shapes
from relaydeck.cli.commands import cli
from relaydeck.cli.json_shapes import Shape
from relaydeck.cli.options import JsonOption

_INTRODUCTION = """# JSON output

Every command has `--json`, for programs. It prints one JSON value on standard output; notes, progress and errors stay
on standard error, and the exit code is the same as without it. `relaydeck event tail` prints an object on each line,
and `relaydeck serve` logs in lines of JSON on standard error. A later version may add fields.

`make docs` writes this page from the commands; a test compares the output of every command with it. A shape without a
link is a schema of the [admin API](../admin.md), in its document at `/admin/v1/openapi.json`.

| command | prints |
|---|---|
"""
_OWN: dict[str, type[Shape]] = {each.__name__: each for each in Shape.__subclasses__()}
assert _OWN and all(getattr(json_shapes, name) is each for name, each in _OWN.items())


def json_page() -> str:
    rows = [f"| `{path}` | {_described(option)} |" for path, option in json_options()]
    used = _used({name for _, option in json_options() for name in (option.shape, option.other)})
    return "\n".join([_INTRODUCTION + "\n".join(rows), "", *map(_section, used)])


def json_options(command: click.Command = cli, path: str = "relaydeck") -> Iterator[tuple[str, JsonOption]]:
    """Every command with its option. Raises LookupError for a command without one."""
    if isinstance(command, click.Group):
        for name, each in sorted(command.commands.items()):
            yield from json_options(each, f"{path} {name}")
        return
    options = [each for each in command.params if isinstance(each, JsonOption)]
    if not options:
        raise LookupError(f"{path} has no --json")
    yield path, options[0]


def schema_of_shape(shape: str, *, many: bool = False) -> dict[str, Any]:
    """The JSON Schema of what a command prints."""
    found, components = _schemas(shape)
    schema = {"type": "array", "items": found} if many else found
    return schema | {"components": {"schemas": components}}


def _schemas(shape: str) -> tuple[dict[str, Any], dict[str, Any]]:
    if shape in _OWN:
        (found,), components = msgspec.json.schema_components([_OWN[shape]], ref_template="#/components/schemas/{name}")
        return found, components
    from relaydeck.admin.openapi import document

    return {"$ref": f"#/components/schemas/{shape}"}, document()["components"]["schemas"]


def _used(names: set[str]) -> list[type[Shape]]:
    """The shapes that commands print, and those inside them, in the order of their declaration."""
    components: set[str] = set()
    for name in names & _OWN.keys():
        components |= _schemas(name)[1].keys()
    return [each for name, each in _OWN.items() if name in components]


def _described(option: JsonOption) -> str:
    shown = _link(option.shape) if option.shape in _OWN else f"`{option.shape}`"
    other = f"; {_link(option.other)}" if option.other else ""
    return (f"array of {shown}" if option.many else shown) + other + option.remark


def _link(name: str) -> str:
    return f"[`{name}`](#{name.lower()})"


def _section(shape: type[Shape]) -> str:
    properties = _schemas(shape.__name__)[1][shape.__name__]["properties"]
    rows = [f"| `{name}` | {_type(each)} | {each.get('description', '')} |" for name, each in properties.items()]
    note = f"{shape.__doc__}\n\n" if shape.__doc__ else ""
    return f"## {shape.__name__}\n\n{note}| field | type | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"


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
