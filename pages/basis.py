"""`docs/reference/fields.md`: for each field of the interface, what the contract shows and what a ruling decides."""

from pathlib import Path
from typing import Any

from pages.openapi.contract import document
from relaydeck.fields import BASIS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "fields.md"
_PARTS = ("presence", "type", "value", "meaning")
_HEAD = """\
# Fields, and who decides about them

Each field of a request or response under `/api/v1` has four parts: whether it is present, its type, which values of the
type it takes (and in which unit), and what it means. For each part this page says on whose word it rests:

- a number, such as 2.4: the contract shows it, in this section;
- a name: the contract leaves it open, and Relaydeck decides. The name is that of the row in [open
  items](../open-items.md) with the ruling and its reason.

A dash means that nothing narrows the type. The OpenAPI document has the same words, as `x-relaydeck-basis`.
`make docs` writes this page.
"""


def page() -> str:
    return (
        _HEAD
        + _parameters()
        + "".join(_section(*each) for each in document()["components"]["schemas"].items() if _fields(each[1]))
    )


def _parameters() -> str:
    """The parameters of each operation of the contract."""
    parts = []
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            named = {each["name"]: each for each in operation.get("parameters", ())}
            if named:
                parts.append(_section(f"Parameters of `{method.upper()} {path}`", {"properties": named}))
    return "".join(parts)


def _section(name: str, schema: dict[str, Any]) -> str:
    rows = "".join(f"| `{field}` | {_cells(described[BASIS])} |\n" for field, described in _fields(schema).items())
    return f"\n## {name}\n\n| field | {' | '.join(_PARTS)} |\n|{'---|' * 5}\n{rows}"


def _fields(schema: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = schema.get("properties", {})
    return fields


def _cells(basis: dict[str, str]) -> str:
    words = (basis.get(part, "–") for part in _PARTS)
    return " | ".join(each.replace("contract, section ", "").replace("ruling: ", "") for each in words)
