"""Errors under `/admin/v1` are problem details (RFC 9457); under `/api/v1` they keep the three described fields."""

import pytest

from relaydeck.errors import RequestError, ServerFailure, StillInUse, request_errors
from relaydeck.http.envelope import problem_of
from tests.admin.conftest import Admin

SECRET = "whsec_c2VjcmV0LXRoYXQtbXVzdC1ub3QtYXBwZWFy"


def test_a_bad_request_tells_its_whole_reason(shared: Admin) -> None:
    wrong = {f"field_{number}": 1 for number in range(20)}
    answer = shared.ask("POST", "relayers", {"name": "x"} | wrong, X_Request_Id="asked")
    body = answer.json
    detail = body.pop("detail")
    assert body == {
        "type": "urn:relaydeck:problem:mistaken-record",
        "title": "Bad Request",
        "status": 400,
        "instance": "asked",
    }
    assert len(detail) > 200 and detail.startswith(answer.headers["relaydeck-reason"])


def test_a_problem_names_the_records_in_the_way(shared: Admin) -> None:
    answer = shared.ask("DELETE", "signers/ops", X_Request_Id="asked")
    assert (answer.status, answer.headers["content-type"], answer.json) == (
        409,
        "application/problem+json",
        {
            "type": "urn:relaydeck:problem:still-in-use",
            "title": "Still in use",
            "status": 409,
            "detail": "Signer is still used by relayer sepolia-1",
            "instance": "asked",
        },
    )


def test_a_path_outside_keeps_the_envelope(shared: Admin) -> None:
    answer = shared.running.ask("GET", "/administration")
    assert (answer.headers["content-type"], answer.json) == (
        "application/json",
        {"data": None, "message": "Not Found", "success": False},
    )


def test_a_problem_never_holds_a_secret(shared: Admin) -> None:
    body = {"id": "n", "type": "nonsense", "url": "no url", "signing_key": SECRET, SECRET: SECRET}
    answer = shared.ask("POST", "notifications", body)
    assert answer.status == 400 and SECRET.encode() not in answer.body


def test_a_failure_of_the_service_does_not_tell_what_failed() -> None:
    reported = problem_of(ServerFailure("disk I/O error at /var/lib"), "id")
    assert (reported.title, reported.detail) == ("Internal Server Error", "The service failed to process the request.")


def test_the_title_of_an_error_does_not_depend_on_the_occurrence() -> None:
    first, second = (problem_of(StillInUse("signer", [user], 1), "id") for user in ("relayer a", "relayer b"))
    assert (first.type, first.title, first.detail) == (second.type, second.title, "Signer is still used by relayer a")
    assert second.detail == "Signer is still used by relayer b"


@pytest.mark.parametrize("error", list(request_errors()), ids=lambda error: error.__name__)
def test_every_error_has_a_problem_of_its_own(error: type[RequestError]) -> None:
    others = {problem_of(other, "id").type for other in request_errors() if other is not error}
    shown = problem_of(error, "id")
    assert shown.type not in others and shown.title and shown.detail
