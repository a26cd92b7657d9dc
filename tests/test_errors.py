"""Each error is declared once: the drawing at the top of the file, both OpenAPI documents and the metrics agree."""

import re

import pytest

from relaydeck import errors
from relaydeck.admin import openapi as admin_openapi
from relaydeck.contract import openapi as contract_openapi
from relaydeck.errors import RequestError, errors_of, message_pattern, request_errors
from relaydeck.http.metrics import REQUESTS

ERRORS = list(request_errors())
every_error = pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)


def test_the_drawing_shows_every_error_with_its_status_and_message() -> None:
    drawn = re.findall(r"─ (\w+) +(\d{3}) +(\S.*)", errors.__doc__ or "")
    assert sorted(drawn) == sorted((error.__name__, str(error.status), error.message) for error in ERRORS)


@every_error
def test_an_error_is_described(error: type[RequestError]) -> None:
    assert error.description.endswith(".")
    assert ("<" in error.message) == bool(error.example)


@every_error
def test_an_example_fits_the_pattern_of_its_messages(error: type[RequestError]) -> None:
    assert re.search(message_pattern(error), error.example or error.message)


@every_error
def test_the_metrics_count_every_status(error: type[RequestError]) -> None:
    assert str(error.status) in REQUESTS.labels["status"]


def documented_statuses(document: dict[str, dict[str, dict[str, dict[str, object]]]]) -> set[str]:
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    return {status for operation in operations for status in operation["responses"]}  # type: ignore[attr-defined]


@every_error
def test_every_error_of_an_operation_is_in_a_document(error: type[RequestError]) -> None:
    documents = documented_statuses(contract_openapi.document()) | documented_statuses(admin_openapi.document())
    assert not error.traits or str(error.status) in documents


def test_the_errors_of_an_operation_are_those_of_its_traits_and_those_of_any() -> None:
    assert [error.__name__ for error in errors_of("limited", "body")] == [
        "BadRequest",
        "Unauthorized",
        "BodyTooLarge",
        "TooManyRequests",
        "ServerFailure",
    ]
