"""The names that operations and records have in the OpenAPI documents."""

import msgspec

from relaydeck.api.operation import Operation
from relaydeck.api.operations import OPERATIONS

SCHEMA_NAMES = {"EventBody": "Event", "NewToken": "IssuedToken"}  # generated Go has a function NewToken
# The records that have a request to create them and a merge patch, both derived from their declaration.
RECORDS = tuple(
    each.request for each in OPERATIONS if each.method == "PATCH" and each.request and each.request is each.response
)
_TAGS = {
    "deliveries": "events",
    "signer-drivers": "signers",
    "runways": "relayers",
    "whoami": "tokens",
    "apply": "provisioning",
    "export": "provisioning",
    "find": "relayers",
}


def schema_name(record: type[msgspec.Struct] | None) -> str:
    """Empty for no record."""
    return "" if record is None else SCHEMA_NAMES.get(record.__name__, record.__name__)


def operation_id(operation: Operation) -> str:
    first, *others = operation.name.split("_")
    return first + "".join(each.capitalize() for each in others)


def tag(operation: Operation) -> str:
    first = operation.path.split("/")[0]
    return _TAGS.get(first, first)
