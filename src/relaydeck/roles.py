"""The roles that a credential can have, each declared once, with the permissions that it grants.

The admin API, both OpenAPI documents, the command line, the console, the setting of the bootstrap token and the access
check of every route derive from this declaration. The kind of a token is its role.
"""

from enum import StrEnum
from functools import cache
from typing import Literal

# An operation requires one of these: `list` and `call` those of /api/v1, the two lists and the others. `view` reads
# /admin/v1, `operate` pauses, replays, tests and checks, `change` changes records, `own` decides who may do what,
# `approve` accepts proposed changes. `look` shows the pages of the console, without what may be a key in a URL.
Permission = Literal["list", "call", "look", "view", "operate", "change", "own", "approve"]


class Role(StrEnum):
    """What a credential grants access to."""

    # Name, description, permissions.
    API = "api", "the five operations", "list", "call"
    READONLY = "readonly", "the two lists, and the console without changes", "list", "look"
    VIEWER = "viewer", "sees everything, and keys in URLs only under /api/v1", "list", "look", "view"
    OPERATOR = "operator", "also pauses, resumes, replays, tests and checks", "list", "look", "view", "operate"
    EDITOR = "editor", "also changes records", "list", "call", "look", "view", "operate", "change"
    OWNER = (
        *("owner", "everything: also tokens, people, keys and protections"),
        *("list", "call", "look", "view", "operate", "change", "own", "approve"),
    )
    ADMIN = "admin", "another word for owner", *OWNER[2:]

    _value_: str
    description: str
    permissions: frozenset[str]

    def __new__(cls, name: str, description: str = "", *permissions: Permission) -> "Role":
        role = str.__new__(cls, name)
        role._value_ = name
        role.description = description
        role.permissions = frozenset(permissions)
        return role


# The roles that closed protections concern.
APPLICATIONS = frozenset({Role.API, Role.READONLY})
ROLE_NAMES = [role.value for role in Role]
_PERMISSIONS = {role.value: role.permissions for role in Role}


def permissions_of(role: str) -> frozenset[str]:
    """What a stored role grants. A role that only a newer version knows grants nothing."""
    return _PERMISSIONS.get(role, frozenset())


@cache
def roles_with(permission: Permission) -> tuple[Role, ...]:
    """The roles that grant a permission, the least first."""
    return tuple(role for role in Role if permission in role.permissions)


@cache
def requirement(permission: Permission) -> str:
    """Which role is missing, for the sender of a request that was refused."""
    *first, last = [role.value for role in roles_with(permission) if role is not Role.ADMIN]
    granted = ", or a token made with --approve" if permission == "approve" else ""
    return f"this needs a credential with the role {', '.join(first)}{' or ' if first else ''}{last}{granted}"


def describe_roles(quote: str = "") -> str:
    """`api (the five operations), readonly (…) or owner (everything …)`."""
    *first, last = [f"{quote}{role.value}{quote} ({role.description})" for role in Role]
    return f"{', '.join(first)} or {last}"
