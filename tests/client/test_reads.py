"""Reading: pages, iterators, estimates, what a write leads to. Against the real service, in both styles."""

import inspect
import subprocess
import sys
import threading
from functools import partial
from typing import Any

import pytest

from relaydeck.api.operations import OPERATIONS
from relaydeck.client import (
    Admin,
    AsyncAdmin,
    AsyncClient,
    Client,
    MethodNotFound,
    NodeUnreachable,
    Pagination,
)
from relaydeck.client.admin import AdminOperations
from relaydeck.client.clients import ContractOperations
from tests.client.built import admin
from tests.client.conftest import Open
from tests.client.faults import FaultProxy
from tests.client.test_examples import TRANSACTION
from tests.client.test_faults import KEY, new_name
from tests.support.client_styles import Style
from tests.support.running import Running

FORMER_NAMES = {
    "send_test": "test_notification",
    "relayer_balances": "get_relayer_balances",
    "relayer_runway": "get_relayer_runway",
    "first_runways": "list_runways",
}


def test_a_page_has_its_records_and_its_place(style: Style) -> None:
    page = style.do(lambda client: client.list_signers(page=1, per_page=1))
    assert [signer.id for signer in page] == ["ops"]
    assert page.pagination == Pagination(1, 1, page.total_items)


def _create(client: Any, name: str) -> Any:
    return client.create_signer("plain", KEY, id=name)


def test_an_iterator_gives_every_record_once_and_in_order(style: Style) -> None:
    names = [new_name("walk") for _ in range(5)]
    for name in names:
        style.do(partial(_create, name=name))
    walked = [signer.id for signer in style.do(lambda client: client.signers(per_page=2))]
    assert [name for name in walked if name in names] == names
    assert len(set(walked)) == len(walked)


def test_an_iterator_needs_no_more_requests_than_there_are_pages(style: Style, proxy: FaultProxy) -> None:
    style.do(lambda client: client.relayers())
    assert [each.target for each in proxy.seen] == ["/api/v1/relayers?per_page=1000"]


def test_events_are_read_on_by_sequence_number(style: Style) -> None:
    for _ in range(3):
        style.do(lambda client: client.admin.test_notification("pager"))
    sequences = [event.sequence for event in style.do(lambda client: client.admin.events(per_page=2))]
    assert sequences == list(range(1, sequences[-1] + 1))
    rest = style.do(lambda client: client.admin.events(after=sequences[-2]))
    assert [event.sequence for event in rest] == sequences[-1:]


def test_a_write_is_in_the_next_read(style: Style, proxy: FaultProxy) -> None:
    name = new_name("seen")
    style.do(lambda client: client.create_signer("plain", KEY, id=name))
    assert name in [signer.id for signer in style.do(lambda client: client.signers())]
    assert int(proxy.seen[-1].headers["Relaydeck-Min-Revision"]) == style.client.revision > 0


def test_a_revision_can_be_handed_to_another_process(open_client: Open, proxy: FaultProxy) -> None:
    writer, reader = open_client(), open_client()
    writer.do(lambda client: client.update_notification("pager", signing_key=new_name("key")))
    reader.client.revision = writer.client.revision
    reader.do(lambda client: client.list_signers())
    assert proxy.seen[-1].headers["Relaydeck-Min-Revision"] == str(writer.client.revision)


def test_a_failing_estimate_is_an_error_of_its_own_kind(style: Style) -> None:
    with pytest.raises(NodeUnreachable) as caught:
        style.do(
            lambda client: client.fee_estimate("sepolia-1", transaction=TRANSACTION, network="sepolia", fee_token="ETH")
        )
    error = caught.value
    assert (error.code, error.message) == (-32000, "Node unreachable")


def test_connections_are_reused(style: Style, proxy: FaultProxy, served: Running) -> None:
    """The proxy has one thread for each connection."""
    before = threading.active_count()
    for _ in range(10):
        style.do(lambda client: client.list_signers())
    assert threading.active_count() <= before + 1


def test_a_connection_that_was_closed_while_it_was_idle_is_not_used(served: Running, proxy: FaultProxy) -> None:
    """Shown with a call that is never repeated: it would fail on the dead connection."""
    proxy.plan.append("close after")
    with Client(proxy.url, served.token) as client:
        client.list_signers()
        assert proxy.closed.wait(60)
        with pytest.raises(MethodNotFound):
            client.rpc("sepolia-1", "other", {})


def test_threads_share_a_client(served: Running) -> None:
    with Client(f"http://127.0.0.1:{served.port}", served.token) as client:
        found: list[int] = []

        def read() -> None:
            found.extend(client.list_signers().total_items for _ in range(10))

        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 80


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8080",
        "ftp://host/",
        "http://",
        "http://user:secret@host/",
        "http://host/?q",
        "http://host/#f",
        "http://host/é",
        "http://host/a b",
    ],
)
def test_an_address_that_cannot_be_one_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ValueError, match="the service's URL must") as caught:
        Client(url, "token")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "to ken", "token\n", "tokén"])
def test_a_token_that_cannot_be_one_is_refused_without_quoting_it(token: str) -> None:
    with pytest.raises(ValueError, match="the token is empty or holds") as caught:
        Client("http://127.0.0.1:9", token)
    assert "tok" not in str(caught.value).replace("the token", "").replace("no token", "")


@pytest.mark.parametrize("value", ["", "a\r\nX: y", "é", "a\n"])
def test_a_header_cannot_be_smuggled_in(value: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII"):
        admin.pause_relayer("r", idempotency_key=value)
    with pytest.raises(ValueError, match="printable ASCII"):
        admin.delete_relayer("r", if_match=value)


def test_both_clients_have_every_operation() -> None:
    assert {each.name for each in OPERATIONS} <= set(vars(AdminOperations))
    for kind, admin_kind in ((Client, Admin), (AsyncClient, AsyncAdmin)):
        assert issubclass(kind, ContractOperations) and issubclass(admin_kind, AdminOperations)


@pytest.mark.parametrize("former, name", FORMER_NAMES.items())
def test_a_method_is_still_found_by_its_former_name(former: str, name: str) -> None:
    assert getattr(Admin, former) is getattr(Admin, name)


def test_an_iterator_reads_backwards(style: Style) -> None:
    for _ in range(3):
        style.do(lambda client: client.admin.test_notification("pager"))
    forwards = [each.sequence for each in style.do(lambda client: client.admin.events())]
    backwards = style.do(lambda client: client.admin.events(order="newest", per_page=2))
    assert [each.sequence for each in backwards] == forwards[::-1]


def test_an_iterator_begins_at_a_page(style: Style) -> None:
    whole = [each.sequence for each in style.do(lambda client: client.admin.audit(per_page=2))]
    assert [each.sequence for each in style.do(lambda client: client.admin.audit(per_page=2, page=2))] == whole[2:]


def test_a_method_documents_itself() -> None:
    signature = inspect.signature(Client.fee_estimate)
    assert list(signature.parameters) == ["self", "relayer_id", "transaction", "network", "fee_token"]
    assert signature.return_annotation.__name__ == "FeeEstimate"
    assert (Client.fee_estimate.__doc__ or "").startswith("What an encoded transaction costs")


def test_importing_the_client_loads_nothing_of_the_server_and_no_http_library() -> None:
    script = "import sys, relaydeck.client; print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    loaded = ran.stdout.split()
    ours = [name for name in loaded if name == "relaydeck" or name.startswith("relaydeck.")]
    assert [name for name in ours if name != "relaydeck" and not name.startswith("relaydeck.client")] == []
    assert {"aiohttp", "http.client", "asyncio", "granian", "cryptography", "click"} & set(loaded) == set()
