"""HEAD works wherever GET does: the same status and headers, and no body."""

import pytest

from tests.support.raw_http import Wire
from tests.support.running import Running

PAGES = ["/healthz", "/readyz", "/openapi.json", "/docs", "/api/v1/signers", "/api/v1/relayers?per_page=1"]
REFUSED = ["/api/v1/signers?page=x", "/api/v1/nothing", "/admin/v1/nothing"]
PER_REQUEST = {"date", "x-request-id"}


def lasting(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in PER_REQUEST}


@pytest.mark.parametrize("path", PAGES + REFUSED)
def test_head_is_get_without_a_body(service: Running, path: str) -> None:
    got, head = service.ask("GET", path), service.ask("HEAD", path)
    assert (head.status, lasting(head.headers), head.body) == (got.status, lasting(got.headers), b"")


def test_head_of_metrics_succeeds(service: Running) -> None:
    assert (service.ask("HEAD", "/metrics").status, service.ask("HEAD", "/metrics").body) == (200, b"")


def test_a_connection_goes_on_after_head(service: Running) -> None:
    with Wire(service) as wire:
        wire.send(wire.head("HEAD", "/healthz") + wire.head("GET", "/healthz", "Connection: close"))
        assert wire.socket.makefile("rb").read().endswith(b"\r\n\r\nok\n")


def test_head_needs_the_credential_that_get_needs(service: Running) -> None:
    assert service.ask("HEAD", "/api/v1/signers", token="").status == 401


def test_head_of_an_operation_without_get_is_a_wrong_method(service: Running) -> None:
    assert service.ask("HEAD", "/api/v1/notifications/pager").status == 405
