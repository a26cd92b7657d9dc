"""References that a file contains in place of secrets: `{ env = "NAME" }` and `{ file = "path" }`."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from relaydeck.secret import Secret
from relaydeck.signers.signer_types import is_private_key

LABELS = "labels"  # the field of a record that contains none, although `{ env = "prod" }` looks like one
_MOST_BYTES = 1_048_576
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Reference(NamedTuple):
    kind: str
    name: str


Resolve = Callable[[Reference], Secret | str]  # to the value, or to why there is none


def as_reference(value: Any) -> Reference | None:
    """A table is a reference if its only key is `env` or `file` and its value is a string."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((kind, name),) = value.items()
    return Reference(kind, name) if kind in ("env", "file") and isinstance(name, str) else None


def reference_problem(reference: Reference) -> str:
    """Refuse a secret in place of its name before a message quotes it."""
    if reference.kind == "env" and not _VARIABLE.fullmatch(reference.name):
        return "env must be the name of an environment variable"
    if reference.kind == "file" and (not reference.name or is_private_key(reference.name)):
        return "file must be the path of a file"
    return ""


class Resolver:
    """Relative paths start from `folder`."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment = environment
        self._folder = folder

    def __call__(self, reference: Reference) -> Secret | str:
        return (self._from_environment if reference.kind == "env" else self._from_file)(reference.name)

    def _from_environment(self, name: str) -> Secret | str:
        value = self._environment.get(name)
        if value:
            return Secret(value)
        return f"the environment variable {name} {'is not set' if value is None else 'is empty'}"

    def _from_file(self, name: str) -> Secret | str:
        try:
            text = _text_of(self._folder / name)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text of at most 1 MiB"
            return f"the file {name} cannot be read: {reason}"
        return Secret(text) if text else f"the file {name} is empty"


def _text_of(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError
    # Editors and `echo` add a final newline that is not part of the secret.
    return content.decode("utf-8").removesuffix("\n").removesuffix("\r")
