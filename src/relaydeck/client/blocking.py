"""The synchronous client."""

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from relaydeck.client import admin, contract
from relaydeck.client.address import read_address
from relaydeck.client.calls import Call, Walk
from relaydeck.client.exchange import Exchange, Steps
from relaydeck.client.messages import MOST_RESPONSE_BYTES, Outcome, Request
from relaydeck.client.methods import documented
from relaydeck.client.retries import Retry

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")
P = ParamSpec("P")


def _run(build: Callable[P, Call[T]]) -> Callable[Concatenate[Any, P], T]:
    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(build(*args, **kwargs))  # type: ignore[no-any-return]

    return documented(run, build)


def _iterate(build: Callable[P, Walk[T]]) -> Callable[Concatenate[Any, P], Iterator[T]]:
    def iterate(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._walk(build(*args, **kwargs))  # type: ignore[no-any-return]

    return documented(iterate, build, Iterator)


class Admin:
    """The operations of `/admin/v1`; needs a token of kind `admin`."""

    def __init__(self, client: "Client") -> None:
        self._run = client._run
        self._walk = client._walk

    list_networks = _run(admin.list_networks)
    networks = _iterate(admin.networks)
    get_network = _run(admin.get_network)
    create_network = _run(admin.create_network)
    update_network = _run(admin.update_network)
    delete_network = _run(admin.delete_network)

    list_signers = _run(admin.list_signers)
    signers = _iterate(admin.signers)
    get_signer = _run(admin.get_signer)
    create_signer = _run(admin.create_signer)
    delete_signer = _run(admin.delete_signer)
    check_signer = _run(admin.check_signer)
    list_signer_drivers = _run(admin.list_signer_drivers)

    list_notifications = _run(admin.list_notifications)
    notifications = _iterate(admin.notifications)
    get_notification = _run(admin.get_notification)
    create_notification = _run(admin.create_notification)
    update_notification = _run(admin.update_notification)
    delete_notification = _run(admin.delete_notification)
    send_test = _run(admin.send_test)

    list_relayers = _run(admin.list_relayers)
    relayers = _iterate(admin.relayers)
    get_relayer = _run(admin.get_relayer)
    create_relayer = _run(admin.create_relayer)
    update_relayer = _run(admin.update_relayer)
    delete_relayer = _run(admin.delete_relayer)
    pause_relayer = _run(admin.pause_relayer)
    resume_relayer = _run(admin.resume_relayer)
    explain_relayer = _run(admin.explain_relayer)
    explain_estimate = _run(admin.explain_estimate)
    relayer_balances = _run(admin.relayer_balances)
    relayer_runway = _run(admin.relayer_runway)
    first_runways = _run(admin.first_runways)

    list_tokens = _run(admin.list_tokens)
    tokens = _iterate(admin.tokens)
    create_token = _run(admin.create_token)
    revoke_token = _run(admin.revoke_token)

    list_events = _run(admin.list_events)
    events = _iterate(admin.events)
    get_event = _run(admin.get_event)
    list_deliveries = _run(admin.list_deliveries)
    deliveries = _iterate(admin.deliveries)
    get_delivery = _run(admin.get_delivery)
    replay_delivery = _run(admin.replay_delivery)
    replay_dead = _run(admin.replay_dead)

    list_audit = _run(admin.list_audit)
    audit = _iterate(admin.audit)

    get_audit_head = _run(admin.get_audit_head)
    verify_audit = _run(admin.verify_audit)
    run_doctor = _run(admin.run_doctor)

    apply = _run(admin.apply)
    export = _run(admin.export)

    request = _run(admin.request)


class Client:
    """A service at `url`, as the holder of `token` sees it. Safe to share between threads; connections are reused.

    `timeout` is the number of seconds one attempt may take from its first byte to its last.
    A response of more than `max_response_bytes` is not read to its end.

    >>> from relaydeck.client import Client
    >>> with Client(URL, TOKEN, timeout=5.0) as client:
    ...     print(client.list_signers().items[0].id)
    ops
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 10.0,
        retry: Retry | None = None,
        ssl_context: "ssl.SSLContext | None" = None,
        max_response_bytes: int = MOST_RESPONSE_BYTES,
    ) -> None:
        from relaydeck.client.blocking_transport import ConnectionPool  # not needed by a receiver of webhooks

        address = read_address(url)
        self._shown = address.origin + address.prefix
        self._exchange = Exchange(address.prefix, token, retry or Retry())
        self._transport = ConnectionPool(address, timeout, ssl_context, max_response_bytes)
        self.admin = Admin(self)

    create_signer = _run(contract.create_signer)
    list_signers = _run(contract.list_signers)
    signers = _iterate(contract.signers)
    update_notification = _run(contract.update_notification)
    list_relayers = _run(contract.list_relayers)
    relayers = _iterate(contract.relayers)
    fee_estimate = _run(contract.fee_estimate)
    rpc = _run(contract.rpc)

    @property
    def revision(self) -> int:
        """The newest write of this client. Set it to read what another process wrote, whichever replica answers."""
        return self._exchange.revision

    @revision.setter
    def revision(self, revision: int) -> None:
        self._exchange.revision = revision

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._shown!r}, token='***')"

    def _run(self, call: Call[T]) -> T:
        steps: Steps[T] = self._exchange.run(call)
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            if isinstance(step, Request):
                outcome = self._transport.send(step)
            else:
                time.sleep(step)

    def _walk(self, walk: Walk[T]) -> Iterator[T]:
        call: Any = walk.first
        while call is not None:
            page = self._run(call)
            yield from page.items
            call = walk.following(page)
