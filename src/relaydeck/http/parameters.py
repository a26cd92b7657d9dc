"""The parameters of a request: the identifier in its path, and its query."""

from urllib.parse import parse_qsl, unquote_to_bytes

from relaydeck.errors import BadRequest
from relaydeck.identifiers import identifier_problem

# No operation reads more than a dozen. Without a bound, parsing 64 kB of separators takes a tenth of a second.
MOST_PARAMETERS = 100


def path_identifier(encoded: str) -> str:
    """The identifier in a path segment: percent-decoded UTF-8. Raises BadRequest."""
    try:
        identifier = unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError:
        raise BadRequest("the identifier in the path is not UTF-8") from None
    if problem := identifier_problem(identifier):
        raise BadRequest(f"the identifier in the path {problem}")
    return identifier


def query_parameters(query: bytes) -> list[tuple[str, str]]:
    """Names and values in their order; a name may occur more than once. Raises BadRequest."""
    try:
        return parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise BadRequest(f"the query has more than {MOST_PARAMETERS} parameters") from None
