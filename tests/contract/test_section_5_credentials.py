"""Section 5 of the contract: authentication."""

from typing import Any

import pytest

from tests.contract.test_section_4_operations import NAMES, OPERATIONS
from tests.support import shapes
from tests.support.raw_http import Wire
from tests.support.running import Running

every_operation = pytest.mark.parametrize(("method", "path", "body"), OPERATIONS, ids=NAMES)


# sentence: 5-bearer
@every_operation
def test_5_a_bearer_credential_in_the_authorization_header_is_taken(
    contract: Running, method: str, path: str, body: Any
) -> None:
    answer = contract.ask(method, path, body, headers={"Authorization": f"Bearer {contract.token}"})
    assert answer.status < 300


@every_operation
def test_5_the_word_bearer_is_taken_in_any_case(contract: Running, method: str, path: str, body: Any) -> None:
    answer = contract.ask(method, path, body, headers={"Authorization": f"bEARER {contract.token}"})
    assert answer.status < 300


@every_operation
@pytest.mark.parametrize("spaces", [2, 3, 100])
def test_5_more_than_one_space_may_stand_before_the_token(
    contract: Running, method: str, path: str, body: Any, spaces: int
) -> None:
    answer = contract.ask(method, path, body, headers={"Authorization": f"Bearer{' ' * spaces}{contract.token}"})
    assert answer.status < 300


REFUSED = {
    "empty": "",
    "no scheme": "{token}",
    "scheme alone": "Bearer",
    "scheme and blank": "Bearer ",
    "no blank": "Bearer{token}",
    "a tab": "Bearer\t{token}",
    "a space and a tab": "Bearer \t{token}",
    "another scheme": "Basic {token}",
    "unknown token": "Bearer rdk_000",
    "token cut short": "Bearer {short}",
    "token made longer": "Bearer {token}x",
    "token in another case": "Bearer {swapped}",
    "two tokens": "Bearer {token} {token}",
    "a list": "Bearer {token}, Bearer {token}",
    "a long one": "Bearer " + "x" * 10_000,
}


# sentence: 5-unauthorized
@every_operation
@pytest.mark.parametrize("form", list(REFUSED.values()), ids=list(REFUSED))
def test_5_a_request_without_valid_credentials_is_answered_unauthorized(
    contract: Running, method: str, path: str, body: Any, form: str
) -> None:
    token = contract.token
    header = form.format(token=token, short=token[:-1], swapped=token.swapcase())
    answer = contract.ask(method, path, body, token="", headers={"Authorization": header})
    assert (answer.status, answer.json, answer.headers["www-authenticate"]) == (401, shapes.UNAUTHORIZED, "Bearer")


@every_operation
def test_5_a_token_in_the_query_is_no_credential(contract: Running, method: str, path: str, body: Any) -> None:
    answer = contract.ask(method, f"{path}?access_token={contract.token}", body, token="")
    assert (answer.status, answer.json) == (401, shapes.UNAUTHORIZED)


@pytest.mark.parametrize("body", [b"{", b"", b"\xff"], ids=ascii)
def test_5_credentials_are_looked_at_before_the_body(contract: Running, body: bytes) -> None:
    answer = contract.ask("POST", "/api/v1/signers", body, token="wrong")
    assert (answer.status, answer.json) == (401, shapes.UNAUTHORIZED)


def test_5_credentials_are_looked_at_before_the_query(contract: Running) -> None:
    assert contract.ask("GET", "/api/v1/signers?page=x", token="wrong").json == shapes.UNAUTHORIZED


@every_operation
@pytest.mark.parametrize("revision", ["x", "9" * 18])
def test_5_credentials_are_looked_at_before_the_revision(
    contract: Running, method: str, path: str, body: Any, revision: str
) -> None:
    answer = contract.ask(method, path, body, token="unknown", headers={"Relaydeck-Min-Revision": revision})
    assert (answer.status, answer.json) == (401, shapes.UNAUTHORIZED)


def test_5_credentials_are_looked_at_before_the_size_of_the_body(contract: Running) -> None:
    answer = contract.ask("POST", "/api/v1/signers", b" " * 3_000_000, token="wrong")
    assert (answer.status, answer.json) == (401, shapes.UNAUTHORIZED)


def test_5_an_unknown_path_is_told_without_credentials(contract: Running) -> None:
    answer = contract.ask("GET", "/api/v1/nothing", token="")
    assert (answer.status, answer.json) == (404, shapes.failure("Not Found"))


def test_5_a_header_with_bytes_that_are_no_text_is_unauthorized(contract: Running) -> None:
    with Wire(contract) as wire:
        wire.send(b"GET /api/v1/signers HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n\r\n")
        answer = wire.answer()
    assert (answer.status, answer.json) == (401, shapes.UNAUTHORIZED)
