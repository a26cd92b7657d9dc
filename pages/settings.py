"""`docs/reference/settings.md`, which `make docs` writes from the declarations of the settings."""

from dataclasses import Field
from pathlib import Path
from typing import Any

from relaydeck.settings.model import SETTINGS, variable

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "settings.md"
_HEAD = """# Every setting

[Settings](../settings.md) says how to set them, in the environment or in a file.

`make docs` writes this page from the declarations in `src/relaydeck/settings/model.py`; a test keeps it current.

| variable | default | meaning |
|---|---|---|
"""


def page() -> str:
    rows = [
        f"| `{variable(s)}` | {s.metadata['shown'] or f'`{_default(s)}`'} | {s.metadata['meaning']} |" for s in SETTINGS
    ]
    return _HEAD + "\n".join([*rows, ""]).replace("](#", "](../settings.md#")


def _default(setting: "Field[Any]") -> str:
    value = setting.default
    return f"{value:g}" if isinstance(value, float) else str(value)
