"""The kinds of access token, each declared once.

The admin API, both OpenAPI documents, the command line and the access check of every route derive from this
declaration. (`settings.py` repeats the names, because a setting depends on no package; a test compares the two.)
"""

from enum import StrEnum
from typing import Literal

# A route requires one of these: `list` the two lists of /api/v1, `call` its other operations, `manage` /admin/v1 and
# changes in the console, `look` its pages.
Permission = Literal["list", "call", "manage", "look"]


class TokenKind(StrEnum):
    """What an access token grants access to."""

    # Name, description, permissions.
    API = "api", "the five operations", "list", "call"
    READONLY = "readonly", "the two lists, and the console without changes", "list", "look"
    ADMIN = "admin", "everything", "list", "call", "manage", "look"

    _value_: str
    description: str
    permissions: frozenset[str]

    def __new__(cls, name: str, description: str = "", *permissions: Permission) -> "TokenKind":
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.description = description
        kind.permissions = frozenset(permissions)
        return kind


KIND_NAMES = [kind.value for kind in TokenKind]
_PERMISSIONS = {kind.value: kind.permissions for kind in TokenKind}


def permissions_of(kind: str) -> frozenset[str]:
    """What a stored kind grants. A kind that only a newer version knows grants nothing."""
    return _PERMISSIONS.get(kind, frozenset())


def kinds_with(permission: Permission) -> list[str]:
    """The names of the kinds that grant a permission, in alphabetical order."""
    return sorted(kind.value for kind in TokenKind if permission in kind.permissions)


def describe_kinds(quote: str = "") -> str:
    """`api (the five operations), readonly (…) or admin (everything)`."""
    *first, last = [f"{quote}{kind.value}{quote} ({kind.description})" for kind in TokenKind]
    return f"{', '.join(first)} or {last}"
