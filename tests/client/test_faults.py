"""Writes through a proxy that loses, cuts, delays and refuses: each is made once, and no error is lost."""

import itertools
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from relaydeck.client import (
    ApiError,
    BadRequest,
    ClientError,
    Conflict,
    ConnectFailed,
    ConnectionLost,
    Forbidden,
    NotFound,
    NotificationNotFound,
    PreconditionFailed,
    RelayerNotFound,
    Retry,
    ServerError,
    SignerExists,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    UnexpectedResponse,
    Unprocessable,
)
from tests.client.conftest import Open
from tests.client.faults import FaultProxy
from tests.support.client_styles import Style
from tests.support.running import Running, free_port
from tests.support.seeding import issue

FATES = ("reset", "500", "429", "lose", "cut", "cut chunk", "500 after", "slow", "drip", "html 502")
FEW = ("reset", "lose", "cut", "500 after", "slow")
BRIEF = 0.4  # seconds for one attempt: what hangs, hangs for ever
UNTIL_IT_ANSWERS = Retry(attempts=100, first_pause=0.0, longest_pause=0.0)  # a busy machine needs several brief ones
_numbers = itertools.count(1)


def new_name(what: str) -> str:
    return f"{what}-{next(_numbers)}"


def opened(open_client: Open, fate: str) -> Style:
    """A client that waits for an answer, or only briefly where it meets one that never ends."""
    return open_client(timeout=BRIEF, retry=UNTIL_IT_ANSWERS) if fate in ("slow", "drip") else open_client()


def audited(served: Running, action: str, record: str) -> int:
    """How often the service made a change."""
    answer = served.ask("GET", f"/admin/v1/audit?action={action}&record={record}")
    total: int = answer.json["pagination"]["total_items"]
    return total


KEY = {"key": "0x" + "11" * 32}
KMS = {"key_id": "alias/ops", "region": "eu"}
Write = tuple[str, Callable[[Any, str], Any]]
WRITES: dict[str, Write] = {
    "create signer": ("signer.created", lambda client, name: client.create_signer("plain", KEY, id=name)),
    "admin create signer": ("signer.created", lambda client, name: client.admin.create_signer("plain", KEY, id=name)),
    "admin create notification": (
        "notification.created",
        lambda client, name: client.admin.create_notification(name, "http://127.0.0.1:9/x"),
    ),
    "admin create token": ("token.created", lambda client, name: client.admin.create_token(name)),
    "admin create network": (
        "network.created",
        lambda client, name: client.admin.create_network(
            name=name, network_type="evm", chain_id=5, native_symbol="ETH"
        ),
    ),
}


@pytest.mark.parametrize("fate", FEW)
@pytest.mark.parametrize("what", WRITES)
def test_a_create_is_made_once(open_client: Open, proxy: FaultProxy, served: Running, what: str, fate: str) -> None:
    action, work = WRITES[what]
    style, name = opened(open_client, fate), new_name("once")
    proxy.plan.append(fate)
    record = style.do(lambda client: work(client, name))
    assert (record.name if hasattr(record, "name") else record.id) == name
    assert len(proxy.seen) > 1
    assert audited(served, action, name) == 1


@pytest.mark.parametrize("fate", FATES)
def test_a_signer_without_an_id_is_created_once(
    open_client: Open, proxy: FaultProxy, served: Running, fate: str
) -> None:
    style = opened(open_client, fate)
    proxy.plan.append(fate)
    signer = style.do(lambda client: client.create_signer("provider_a_kms", KMS))
    assert audited(served, "signer.created", signer.id) == 1


@pytest.mark.parametrize("fate", FATES)
def test_a_relayer_without_an_id_is_created_once(
    open_client: Open, proxy: FaultProxy, served: Running, fate: str
) -> None:
    style, name = opened(open_client, fate), new_name("Relayer")
    proxy.plan.append(fate)
    fields = {"name": name, "network": "sepolia", "network_type": "evm", "signer_id": "ops"}
    created = style.do(lambda client: client.admin.create_relayer(**fields))
    found = style.do(lambda client: client.admin.list_relayers(name=name))
    assert [each.id for each in found] == [created.id]


@pytest.mark.parametrize("fate", FEW)
def test_a_test_event_is_sent_once(open_client: Open, proxy: FaultProxy, served: Running, fate: str) -> None:
    style, name = opened(open_client, fate), new_name("tested")
    style.do(lambda client: client.admin.create_notification(name, "http://127.0.0.1:9/x"))
    proxy.plan.append(fate)
    event = style.do(lambda client: client.admin.test_notification(name))
    sent = style.do(lambda client: client.admin.deliveries(notification_id=name))
    assert [each.id for each in sent] == [event.id]


@pytest.mark.parametrize("fate", FEW)
def test_an_update_is_made_once(open_client: Open, proxy: FaultProxy, served: Running, fate: str) -> None:
    style, name = opened(open_client, fate), new_name("updated")
    style.do(lambda client: client.admin.create_notification(name, "http://127.0.0.1:9/x"))
    proxy.plan.append(fate)
    changed = style.do(lambda client: client.update_notification(name, url="http://127.0.0.1:9/y", signing_key="k"))
    assert (changed.url, changed.has_signing_key) == ("http://127.0.0.1:9/y", True)
    assert audited(served, "notification.updated", name) == 1


@pytest.mark.parametrize("fate", FEW)
def test_a_delete_is_made_once(open_client: Open, proxy: FaultProxy, served: Running, fate: str) -> None:
    style, name = opened(open_client, fate), new_name("deleted")
    style.do(lambda client: client.admin.create_signer("plain", KEY, id=name))
    proxy.plan.append(fate)
    assert style.do(lambda client: client.admin.delete_signer(name)) is None
    assert audited(served, "signer.deleted", name) == 1


@pytest.mark.parametrize("fate", FEW)
@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_pause_is_made_once(open_client: Open, proxy: FaultProxy, served: Running, verb: str, fate: str) -> None:
    style, name = opened(open_client, fate), new_name("paused")
    fields = {"id": name, "name": name, "network": "sepolia", "network_type": "evm", "signer_id": "ops"}
    style.do(lambda client: client.admin.create_relayer(**fields))
    if verb == "resume":
        style.do(lambda client: client.admin.pause_relayer(name))
    proxy.plan.append(fate)
    changed = style.do(lambda client: getattr(client.admin, f"{verb}_relayer")(name))
    assert changed.paused is (verb == "pause")
    assert audited(served, f"relayer.{verb}d", name) == 1


@pytest.mark.parametrize("fate", FEW)
def test_a_token_is_revoked_once(open_client: Open, proxy: FaultProxy, served: Running, fate: str) -> None:
    style, name = opened(open_client, fate), new_name("revoked")
    style.do(lambda client: client.admin.create_token(name))
    proxy.plan.append(fate)
    assert style.do(lambda client: client.admin.revoke_token(name)) is None
    assert audited(served, "token.revoked", name) == 1


@pytest.mark.parametrize("fate", FATES)
def test_an_iterator_loses_and_repeats_no_record(
    open_client: Open, proxy: FaultProxy, served: Running, fate: str
) -> None:
    """The fault meets the second of its pages."""
    style = opened(open_client, fate)
    whole = style.do(lambda client: client.admin.list_audit(per_page=40)).items
    proxy.plan.extend(["", fate])
    walked = style.do(lambda client: client.admin.audit(per_page=15))
    assert [each.sequence for each in walked[: len(whole)]] == [each.sequence for each in whole]
    assert len({each.sequence for each in walked}) == len(walked)


def test_many_writes_through_many_faults_are_each_made_once_or_reported(
    open_client: Open, proxy: FaultProxy, served: Running
) -> None:
    """Two attempts are not enough for every write: one whose attempts all fail raises, and says if it is uncertain."""
    style, chance = open_client(retry=Retry(attempts=2, first_pause=0.0, longest_pause=0.0)), random.Random(7)
    made, failed = set(), {}
    for name in [new_name("storm") for _ in range(40)]:
        proxy.plan.extend(chance.choice(["", "", "reset", "lose", "cut", "500", "500 after", "429"]) for _ in range(2))
        try:
            made.add(style.do(partial(create_named, name=name)).id)
        except ClientError as error:
            failed[name] = error.uncertain
        proxy.plan.clear()
    times = {name: audited(served, "notification.created", name) for name in made | set(failed)}
    assert {name: times[name] for name in made} == dict.fromkeys(made, 1)
    refused = [name for name, uncertain in failed.items() if not uncertain]
    assert {name: times[name] for name in refused} == dict.fromkeys(refused, 0)
    assert {times[name] for name in failed} <= {0, 1}


def create_named(client: Any, name: str) -> Any:
    return client.admin.create_notification(name, "http://127.0.0.1:9/x")


def test_a_delete_on_a_kept_connection_that_breaks_is_repeated_by_the_client_alone(
    style: Style, proxy: FaultProxy
) -> None:
    """An HTTP library that repeats by itself would hide that the first attempt may have succeeded."""
    name = new_name("kept")
    style.do(lambda client: client.admin.create_signer("plain", KEY, id=name))
    proxy.seen.clear()
    proxy.plan.extend(["lose"])
    style.do(lambda client: client.admin.delete_signer(name))
    assert [(each.method, each.target) for each in proxy.seen] == [("DELETE", f"/admin/v1/signers/{name}")] * 2


# What is not repeated


def test_a_conditional_change_whose_response_is_lost_is_not_repeated(style: Style, proxy: FaultProxy) -> None:
    name = new_name("conditional")
    created = style.do(lambda client: client.admin.create_notification(name, "http://127.0.0.1:9/x"))
    proxy.seen.clear()
    proxy.plan.append("lose")
    with pytest.raises(ConnectionLost) as caught:
        style.do(
            lambda client: client.admin.update_notification(
                name, url="http://127.0.0.1:9/y", if_match=created.meta.etag
            )
        )
    assert (len(proxy.seen), caught.value.uncertain) == (1, True)


def test_an_unknown_rpc_method_whose_response_is_lost_is_not_repeated(style: Style, proxy: FaultProxy) -> None:
    proxy.plan.append("lose")
    with pytest.raises(ConnectionLost) as caught:
        style.do(lambda client: client.rpc("sepolia-1", "sendTransaction", {}))
    assert (len(proxy.seen), caught.value.uncertain) == (1, True)


@pytest.mark.parametrize(
    "work",
    [
        lambda client: client.update_notification("none", url="http://127.0.0.1:9/x"),
        lambda client: client.admin.get_relayer("none"),
        lambda client: client.create_signer("plain", KEY, id="ops"),
    ],
    ids=["not found", "relayer not found", "exists"],
)
def test_a_refusal_is_not_repeated(style: Style, proxy: FaultProxy, work: Callable[[Any], Any]) -> None:
    with pytest.raises(ApiError) as caught:
        style.do(work)
    assert (len(proxy.seen), caught.value.uncertain) == (1, False)


# A duplicate that is not ours


def test_an_id_taken_by_another_signer_is_an_error_even_when_the_first_response_is_lost(
    style: Style, proxy: FaultProxy
) -> None:
    name = new_name("taken")
    style.do(lambda client: client.create_signer("provider_a_kms", KMS, id=name))
    proxy.plan.append("lose")
    with pytest.raises(SignerExists):
        style.do(lambda client: client.create_signer("plain", KEY, id=name))


def test_an_id_taken_by_a_signer_with_another_config_is_an_error_even_when_the_first_response_is_lost(
    style: Style, proxy: FaultProxy
) -> None:
    name = new_name("taken")
    config = {"address": "https://a.example", "key_name": "k", "role_id": "r", "secret_id": "s"}
    style.do(lambda client: client.create_signer("provider_c", config, id=name))
    proxy.plan.append("lose")
    with pytest.raises(SignerExists):
        style.do(lambda client: client.create_signer("provider_c", config | {"key_name": "other"}, id=name))


def test_a_create_that_was_made_by_a_lost_attempt_is_recognised(style: Style, proxy: FaultProxy) -> None:
    proxy.plan.append("lose")
    signer = style.do(lambda client: client.create_signer("plain", KEY, id=new_name("recognised")))
    assert signer.meta.recognised


def test_a_create_that_was_answered_is_not_called_recognised(style: Style) -> None:
    assert not style.do(lambda client: client.create_signer("plain", KEY, id=new_name("plain"))).meta.recognised


# Every error arrives as what it is


PERSISTENT: dict[str, tuple[type[ClientError], bool]] = {
    "reset": (ConnectionLost, True),
    "lose": (ConnectionLost, True),
    "cut": (ConnectionLost, True),
    "cut chunk": (ConnectionLost, True),
    "slow": (TimedOut, True),
    "drip": (TimedOut, True),
    "500": (ServerError, True),
    "html 502": (ServerError, True),
    "429": (TooManyRequests, False),
    "problem": (Forbidden, False),
    "redirect": (UnexpectedResponse, True),
    "html 200": (UnexpectedResponse, True),
}


@pytest.mark.parametrize("fate", ["", "chunks"])
def test_a_response_that_is_too_large_is_not_read(open_client: Open, proxy: FaultProxy, fate: str) -> None:
    proxy.always = fate
    style = open_client(max_response_bytes=100)
    with pytest.raises(UnexpectedResponse, match=r"the response is larger than 100 bytes \(HTTP status 200\)"):
        style.do(lambda client: client.list_signers())


@pytest.mark.parametrize("fate", PERSISTENT)
def test_a_fault_that_stays_is_raised(open_client: Open, proxy: FaultProxy, fate: str) -> None:
    expected, uncertain = PERSISTENT[fate]
    retry = Retry(attempts=2, first_pause=0.0, longest_pause=0.0)
    style = open_client(timeout=0.1 if expected is TimedOut else 60.0, retry=retry)
    proxy.always = fate
    with pytest.raises(expected) as caught:
        style.do(lambda client: client.update_notification("pager"))
    assert caught.value.uncertain is uncertain


@pytest.mark.parametrize("fate", ["reset", "slow", "500"])
def test_a_read_that_fails_is_never_uncertain(open_client: Open, proxy: FaultProxy, fate: str) -> None:
    style = open_client(timeout=0.1 if fate == "slow" else 60.0, retry=Retry(attempts=1))
    proxy.always = fate
    with pytest.raises(ClientError) as caught:
        style.do(lambda client: client.list_signers())
    assert caught.value.uncertain is False


def test_no_connection_means_that_nothing_was_sent(open_client: Open) -> None:
    style = open_client(url=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(ConnectFailed) as caught:
        style.do(lambda client: client.create_signer("plain", KEY))
    assert caught.value.uncertain is False


def test_an_earlier_uncertain_attempt_is_not_forgotten(open_client: Open, proxy: FaultProxy) -> None:
    """The last attempt was refused before any work, but the first may have made the change."""
    style = open_client(retry=Retry(attempts=2, first_pause=0.0, longest_pause=0.0))
    proxy.plan.extend(["lose", "429"])
    with pytest.raises(TooManyRequests) as caught:
        style.do(lambda client: client.update_notification("pager"))
    assert caught.value.uncertain is True


def test_problem_details_are_read(open_client: Open, proxy: FaultProxy) -> None:
    style = open_client()
    proxy.always = "problem"
    with pytest.raises(Forbidden) as caught:
        style.do(lambda client: client.admin.list_tokens())
    error = caught.value
    assert (error.message, error.status, error.reason, error.problem["type"]) == (
        "Forbidden",
        403,
        "this kind may not use this operation",
        "about:blank",
    )


REFUSALS: dict[str, tuple[type[ApiError], int, Callable[[Any], Any]]] = {
    "bad request": (BadRequest, 400, lambda client: client.update_notification("pager", url="nowhere")),
    "signer exists": (SignerExists, 409, lambda client: client.create_signer("plain", KEY, id="ops")),
    "notification not found": (NotificationNotFound, 404, lambda client: client.update_notification("none")),
    "relayer not found": (RelayerNotFound, 404, lambda client: client.rpc("a/b ?", "feeEstimate", {})),
    "record not found": (NotFound, 404, lambda client: client.admin.get_network("none")),
    "in use": (Conflict, 409, lambda client: client.admin.delete_network("sepolia")),
    "taken": (Conflict, 409, lambda client: client.admin.create_notification("pager", "http://127.0.0.1:9/")),
    "out of date": (
        PreconditionFailed,
        412,
        lambda client: client.admin.update_relayer("sepolia-1", name="x", if_match='"0"'),
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_a_refusal_arrives_as_its_own_error(style: Style, what: str) -> None:
    expected, status, work = REFUSALS[what]
    with pytest.raises(expected) as caught:
        style.do(work)
    error = caught.value
    assert (type(error), error.status, bool(error.reason), bool(error.request_id)) == (expected, status, True, True)


def test_a_wrong_token_is_unauthorized(open_client: Open) -> None:
    with pytest.raises(Unauthorized):
        open_client(token="wrong").do(lambda client: client.list_signers())


def test_a_token_of_another_kind_is_forbidden_on_the_admin_api(open_client: Open, served: Running) -> None:
    token = issue(served.home, new_name("reader"), "readonly")
    with pytest.raises(Forbidden):
        open_client(token=token).do(lambda client: client.admin.list_tokens())


def test_an_idempotency_key_of_another_request_is_unprocessable(style: Style) -> None:
    key = new_name("key")
    style.do(lambda client: client.admin.test_notification("pager", idempotency_key=key))
    with pytest.raises(Unprocessable):
        style.do(lambda client: client.admin.pause_relayer("sepolia-1", idempotency_key=key))


def test_the_same_idempotency_key_gets_the_same_response(style: Style) -> None:
    key = new_name("key")
    first = style.do(lambda client: client.admin.test_notification("pager", idempotency_key=key))
    assert style.do(lambda client: client.admin.test_notification("pager", idempotency_key=key)) == first
