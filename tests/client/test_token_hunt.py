"""The token is looked for in everything a caller can print: reprs, errors, tracebacks with variables, logs."""

import logging
import traceback

import pytest

from relaydeck.client import AsyncClient, Client, ClientError, Retry
from relaydeck.client.calls import Request
from relaydeck.client.exchange import Exchange
from tests.client.built import contract
from tests.client.conftest import Open
from tests.client.faults import FaultProxy
from tests.support.client_styles import Style

PLANTED = "rd_planted_0123456789abcdef"
SECRET = "0xplantedsecretkey"
FATES = ["reset", "lose", "cut", "cut chunk", "500", "429", "slow", "redirect", "html 200", "html 502", ""]


def planted_client(open_client: Open) -> Style:
    return open_client(token=PLANTED, timeout=0.2, retry=Retry(attempts=2, first_pause=0.0, longest_pause=0.0))


def provoke(style: Style) -> ClientError:
    with pytest.raises(ClientError) as caught:
        style.do(lambda client: client.create_signer("plain", {"key": SECRET}, id="hunted"))
    return caught.value


@pytest.mark.parametrize("fate", FATES)
def test_no_error_shows_the_token(
    open_client: Open, proxy: FaultProxy, caplog: pytest.LogCaptureFixture, fate: str
) -> None:
    caplog.set_level(logging.DEBUG)
    proxy.always = fate
    error = provoke(planted_client(open_client))
    whole = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    shown = "\n".join([whole, str(error), repr(error), repr(vars(error)), repr(error.args), caplog.text])
    assert type(error).__name__ in shown
    # This file's own variables are in the traceback as well; the client's own frames follow.
    ours = shown.replace(f"SECRET = '{SECRET}'", "")
    assert PLANTED not in ours
    assert error.__cause__ is None
    assert error.__context__ is None


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_does_not_show_its_token(kind: type[Client] | type[AsyncClient]) -> None:
    client = kind("http://127.0.0.1:9", PLANTED)
    assert repr(client) == f"{kind.__name__}('http://127.0.0.1:9', token='***')"
    assert PLANTED not in repr(vars(client)) + str(client) + repr(vars(client._exchange))


def test_a_request_and_a_call_show_neither_token_nor_body() -> None:
    call = contract.create_signer("plain", {"key": SECRET}, id="x")
    request = next(Exchange("", PLANTED, Retry()).run(call))
    assert isinstance(request, Request)
    assert repr(request) == "<Request POST /api/v1/signers>"
    assert repr(call) == "<Call POST /api/v1/signers>"
    assert PLANTED not in repr(request.headers)
    assert request.headers["Authorization"] == f"Bearer {PLANTED}"


def test_a_list_call_shows_its_path() -> None:
    assert repr(contract.list_signers(page=2)) == "<Call GET /api/v1/signers?page=2>"
