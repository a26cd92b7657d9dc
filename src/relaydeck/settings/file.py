"""A file of settings in TOML: `max_per_page = 5` sets what `RELAYDECK_MAX_PER_PAGE` sets.

The file is meant to be read by many and kept in a repository, so it contains no password: a URL with one is kept in
a file of its own, `database_url = { file = "/run/secrets/database_url" }`.
"""

import difflib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from relaydeck.bounded_toml import parse_toml
from relaydeck.errors import OperatorError
from relaydeck.settings.values import SIGNER_TYPES

_REMEDY = "Correct the settings file and start again."
_MOST_BYTES = 1_048_576
_APPLY_TABLES = {"networks", "signers", "notifications", "relayers"}


class SettingsFile(NamedTuple):
    texts: dict[str, str]
    problems: list[str]


def read_settings_file(
    path: Path, known: Collection[str], urls: Collection[str], elsewhere: Collection[str]
) -> SettingsFile:
    """The texts of the settings in a file. Raises OperatorError when it cannot be read.

    `known` are the names of all settings, `urls` those of them that may contain a password, `elsewhere` the names that
    only the environment and options can set. The table of drivers has several texts, such as `drivers.plain` and
    `drivers.provider_c.endpoint`.
    """
    texts: dict[str, str] = {}
    problems: list[str] = []
    content = _parsed(path)
    if _APPLY_TABLES & content.keys():
        raise OperatorError(
            f"{path} is an apply file, not a settings file", f"Apply it with: relaydeck apply {path} --plan"
        )
    for name, value in content.items():
        try:
            if _in_file(name) in elsewhere:
                raise ValueError("cannot be set in a file: use the environment or an option")
            if name == "drivers":
                texts |= _driver_texts(value)
            elif name in ("issuers", "master_key_from"):
                texts[name] = json.dumps(value)
            else:
                texts[name] = _text(name, value, known, urls)
        except ValueError as problem:
            problems.append(f"{name} in {path} {problem}")
    return SettingsFile(texts, problems)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise OperatorError(f"the settings file {path} has more than {_MOST_BYTES} bytes", _REMEDY)
        return parse_toml(content.decode())
    except OSError as error:
        raise OperatorError(f"the settings file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OperatorError(f"the settings file {path} is not UTF-8 text", _REMEDY) from None
    except ValueError as error:
        raise OperatorError(f"the settings file {path} is not TOML: {error}", _REMEDY) from None


def _text(name: str, value: Any, known: Collection[str], urls: Collection[str]) -> str:
    if name not in known:
        raise ValueError(f"is not a setting{nearest_name(_in_file(name), known)}")
    if name in urls:
        return _url_text(name, value)
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    if not isinstance(value, str | int | float):
        raise ValueError("must be a string, a number or an array of strings")
    return str(value)


def _driver_texts(table: Any) -> dict[str, str]:
    """Of a table with the driver of each signer type: its name, or a table with `driver` and `endpoint`."""
    texts: dict[str, str] = {}
    if not isinstance(table, dict):
        raise ValueError("must be a table of signer types")
    for signer_type, value in table.items():
        if signer_type not in SIGNER_TYPES:
            near = nearest_name(signer_type, SIGNER_TYPES)
            raise ValueError(f"has no signer type {signer_type}{near or '.'} The types are {', '.join(SIGNER_TYPES)}")
        parts = value if isinstance(value, dict) else {"driver": value}
        if not parts.keys() <= {"driver", "endpoint"} or not all(isinstance(each, str) for each in parts.values()):
            raise ValueError(f'must have {signer_type} = "driver" or {{ driver = "…", endpoint = "…" }}')
        if signer_type == "plain" and "endpoint" in parts:
            raise ValueError("must not have an endpoint of plain: its keys are stored")
        names = {"driver": f"drivers.{signer_type}", "endpoint": f"drivers.{signer_type}.endpoint"}
        texts |= {names[part]: text for part, text in parts.items()}
    return texts


def _in_file(name: str) -> str:
    """The name as the file spells it, if it is spelled as in the environment."""
    return name.lower().removeprefix("relaydeck_")


def _url_text(name: str, value: Any) -> str:
    if isinstance(value, dict) and list(value) == ["file"] and isinstance(value["file"], str):
        return _content(Path(value["file"]))
    if not isinstance(value, str):
        raise ValueError('must be a string or { file = "path" }')
    if _has_password(value):
        raise ValueError(f'contains a password: put the URL in a file and write {name} = {{ file = "path" }}')
    return value


def _has_password(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.password is not None or any("password" in name for name, _ in parse_qsl(parts.query))
    except ValueError:
        return False  # not a URL, which the reader of the setting refuses without quoting it


def _content(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except OSError as error:
        raise ValueError(f"refers to the file {path}, which cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"refers to the file {path}, which is not UTF-8 text") from None


def nearest_name(name: str, known: Collection[str], prefix: str = "") -> str:
    """`; did you mean …?`, or nothing if no known name is near. The prefix of all names makes none of them nearer."""
    nearest = difflib.get_close_matches(name.removeprefix(prefix), [each.removeprefix(prefix) for each in known], n=1)
    return f"; did you mean {prefix}{nearest[0]}?" if nearest else ""
