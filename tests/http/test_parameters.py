"""The query of a request: bounded, so that parsing it stays cheap."""

import pytest

from relaydeck.errors import BadRequest
from relaydeck.http.request import MOST_PARAMETERS, query_parameters
from tests.support.running import Running


def test_names_may_be_repeated_and_blank() -> None:
    assert query_parameters(b"a=1&b=&a=%C3%A9&c") == [("a", "1"), ("b", ""), ("a", "é"), ("c", "")]


def test_as_many_parameters_as_allowed() -> None:
    assert len(query_parameters(b"&".join([b"a"] * MOST_PARAMETERS))) == MOST_PARAMETERS


def test_more_parameters_are_refused() -> None:
    with pytest.raises(BadRequest, match="the query has more than 100 parameters"):
        query_parameters(b"a&" * MOST_PARAMETERS)


@pytest.mark.parametrize("path", ["/api/v1/signers", "/api/v1/relayers"])
def test_a_long_query_is_a_bad_request(service: Running, path: str) -> None:
    answer = service.ask("GET", f"{path}?{'a&' * 30_000}")
    assert (answer.status, answer.headers["relaydeck-reason"]) == (400, "the query has more than 100 parameters")
