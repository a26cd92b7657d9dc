"""The identifier in a path."""

from urllib.parse import unquote_to_bytes

from relaydeck.errors import BadRequest
from relaydeck.identifiers import identifier_problem


def path_identifier(encoded: str) -> str:
    """The identifier in a path segment: percent-decoded, UTF-8. Raises BadRequest."""
    try:
        identifier = unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError:
        raise BadRequest("the identifier in the path is not UTF-8") from None
    if problem := identifier_problem(identifier):
        raise BadRequest(f"the identifier in the path {problem}")
    return identifier
