"""`docs/settings.md`, which `make docs` writes from the declarations of the settings."""

from dataclasses import Field, fields
from typing import Any

from relaydeck.settings import Settings, variable

_PAGE = """# Settings

Relaydeck reads its settings once at the start: from environment variables, and from a file if `--config FILE` or
`RELAYDECK_CONFIG` names one. The environment overrides the file. If a value has the wrong form, Relaydeck does not
start and names it. `serve` does not start either if a setting needs a driver, a file or an extra that is missing.
Relaydeck ignores an unknown `RELAYDECK_*` variable; `serve` and `doctor` warn of it and suggest the nearest known one.

`make docs` writes this page from the declarations in `src/relaydeck/settings.py`; a test keeps it current.

## A settings file

The file is TOML. A setting has the name of its variable in lower case, without `RELAYDECK_`:

```toml
home = "/var/lib/relaydeck"
port = 8080
rate_limit_per_second = 50
webhook_allow = ["10.1.0.0/16", "192.0.2.7"]
database_url = { file = "/run/secrets/database_url" }
```

- A value is a string or a number; `true` and `false` stand for `on` and `off`. Where a variable takes a list with
  commas, the file takes an array of strings too.
- An unknown name is an error that suggests the nearest known one, and the service does not start.
- The file contains no secret. A password in `database_url` or `limits_url` is refused; put the whole URL in a file of
  its own and refer to it, as `database_url` does above. Other secrets have settings that name a file.
- A relative path starts from the working directory, as in a variable. Use absolute paths for a service.
- Relaydeck reads no settings file that is not named.

## Every setting

| variable | default | meaning |
|---|---|---|
"""


def settings_page() -> str:
    """`docs/settings.md`."""
    rows = [
        f"| `{variable(s)}` | {s.metadata['shown'] or f'`{_default(s)}`'} | {s.metadata['meaning']} |"
        for s in fields(Settings)
    ]
    return _PAGE + "\n".join([*rows, ""])


def _default(setting: "Field[Any]") -> str:
    value = setting.default
    return f"{value:g}" if isinstance(value, float) else str(value)
