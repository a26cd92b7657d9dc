"""The query of a request."""

from urllib.parse import parse_qsl

from relaydeck.errors import BadRequest

# No operation reads more than a dozen. Without a bound, parsing 64 kB of separators takes a tenth of a second.
MOST_PARAMETERS = 100


def query_parameters(query: bytes) -> list[tuple[str, str]]:
    """Names and values in their order; a name may occur more than once. Raises BadRequest."""
    try:
        return parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise BadRequest(f"the query has more than {MOST_PARAMETERS} parameters") from None
