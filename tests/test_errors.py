"""Each error is declared once: the drawing at the top of the file, both OpenAPI documents and the metrics agree."""

import errno
import re
import socket
from pathlib import Path

import pytest

from pages.openapi import admin as admin_openapi
from pages.openapi import contract as contract_openapi
from pages.openapi.admin import errors_of
from pages.openapi.contract import message_pattern
from relaydeck import errors
from relaydeck.errors import RequestError, described, operator_words, request_errors
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


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "said otherwise", "/data/db"), "OSError: No space left on device (ENOSPC): /data/db"),
        (FileNotFoundError(errno.ENOENT, "", b"/a"), "FileNotFoundError: No such file or directory (ENOENT): /a"),
        (OSError(errno.EXDEV, "", "/a", None, "/b"), "OSError: Invalid cross-device link (EXDEV): /a: /b"),
        (
            ConnectionRefusedError(errno.ECONNREFUSED, "u:p@host"),
            "ConnectionRefusedError: Connection refused (ECONNREFUSED)",
        ),
        (OSError("a text that may quote a URL"), "OSError"),
        (socket.gaierror(-2, "a name"), "gaierror"),
        (ValueError("a secret"), "ValueError"),
    ],
)
def test_an_error_of_the_system_is_described_with_its_code_and_path(error: Exception, said: str) -> None:
    assert described(error) == said


def test_an_operator_learns_the_code_and_the_path(tmp_path: Path) -> None:
    with pytest.raises(OSError) as raised:
        (tmp_path / "none" / "file").read_text()
    assert operator_words(raised.value)[0] == f"No such file or directory (ENOENT): {tmp_path}/none/file"
