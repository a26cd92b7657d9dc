"""References that a file contains in place of secrets: `{ env = "NAME" }` and `{ file = "path" }`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from relaydeck.secret import Secret
from relaydeck.signers.hints import is_private_key

NO_REFERENCE = "must be a string: references are for files"
_MOST_BYTES = 1_048_576
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Reference(NamedTuple):
    kind: str
    name: str


class Missing(NamedTuple):
    """A reference that leads nowhere. A stored record keeps the secret it has."""

    place: str
    why: str


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

    def resolve(self, reference: Reference, place: str) -> Secret | Missing:
        if reference.kind == "env":
            return self._from_environment(reference.name, place)
        return self._from_file(reference.name, place)

    def _from_environment(self, name: str, place: str) -> Secret | Missing:
        value = self._environment.get(name)
        if not value:
            state = "is not set" if value is None else "is empty"
            return Missing(place, f"the environment variable {name} {state}")
        return Secret(value)

    def _from_file(self, name: str, place: str) -> Secret | Missing:
        try:
            text = _text_of(self._folder / name)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text of at most 1 MiB"
            return Missing(place, f"the file {name} cannot be read: {reason}")
        return Secret(text) if text else Missing(place, f"the file {name} is empty")


class GivenReferences(Resolver):
    """References that somebody else has resolved: by kind and name, each with its value or why it has none."""

    def __init__(self, found: Mapping[Reference, Secret | str]) -> None:
        super().__init__({}, Path())
        self._found = found

    def resolve(self, reference: Reference, place: str) -> Secret | Missing:
        found = self._found.get(reference, "has no value in the references of the request")
        return found if isinstance(found, Secret) else Missing(place, found)


class NoReferences(Resolver):
    """For requests: a caller must not make the service read its environment or its files."""

    def __init__(self) -> None:
        super().__init__({}, Path())

    def resolve(self, reference: Reference, place: str) -> Secret | Missing:
        return Missing(place, NO_REFERENCE)


def _text_of(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError
    # Editors and `echo` add a final newline that is not part of the secret.
    return content.decode("utf-8").removesuffix("\n").removesuffix("\r")
