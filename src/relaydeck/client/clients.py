"""The two clients, `Client` and `AsyncClient`, with the five operations of `/api/v1` and `/admin/v1` below `admin`."""

import time
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from relaydeck.client.admin import AdminOperations
from relaydeck.client.calls import (
    JSON,
    PAGE_SIZE,
    Asynchronous,
    Blocking,
    Body,
    Call,
    Meta,
    Outcome,
    Page,
    Record,
    Repeat,
    Request,
    Response,
    admin_call,
    operation,
    path,
    read_body,
    read_one,
    read_page,
    walk,
    with_meta,
    with_query,
)
from relaydeck.client.errors import ApiError, RpcError, SignerExists, UnexpectedResponse
from relaydeck.client.exchange import MOST_RESPONSE_BYTES, Exchange, Retry, Steps, read_address
from relaydeck.client.records import Notification, Relayer, Signer, SignerConfig, SignerType

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")
_SIGNERS = "/api/v1/signers"
_RELAYERS = "/api/v1/relayers"
_RPC_ID = 1


class FeeEstimate(Record, frozen=True):
    """`estimated_fee` in whole units of the fee token; `conversion_rate`: units of it for one native coin."""

    conversion_rate: Decimal
    estimated_fee: Decimal
    method: str


class ContractOperations:
    """The five operations of `/api/v1`."""

    @operation
    def create_signer(
        self, type: SignerType, config: SignerConfig | Mapping[str, Any], *, id: str | None = None
    ) -> Call[Signer]:
        """Create a signer. Without `id` the client makes a UUID, so that the call can be repeated safely.

        When a response is lost and the repeated call finds the id taken, the client looks the signer up among the
        newest: one with the same id, type and shown config is returned, with `meta.recognised` set; otherwise
        `SignerExists` is raised. Secret fields are never shown, so they take no part in that comparison.

        >>> client.create_signer("plain", {"key": "0x" + "11" * 32}, id="first")
        Signer(id='first', type='local', config={}, labels=None, check=None, created_at=None)
        >>> client.create_signer("plain", {"key": "0x1234"}).meta.logs
        ('config.key is not a 32-byte hexadecimal private key, so it cannot sign',)
        """
        name = str(uuid.uuid4()) if id is None else id

        def settle(error: ApiError) -> Generator[Call[Any], Any, Signer]:
            return _recognised(error, name, type, config)

        body = msgspec.json.encode({"id": name, "type": type, "config": config})
        return Call("POST", _SIGNERS, read_one(Signer), body, JSON, Repeat.SAME, settle)

    @operation
    def list_signers(self, *, page: int | None = None, per_page: int | None = None) -> Call[Page[Signer]]:
        """One page of the signers, oldest first.

        >>> found = client.list_signers(per_page=2)
        >>> found.pagination.per_page
        2
        """
        return _signers(page, per_page)

    signers = walk(list_signers)

    @operation
    def update_notification(
        self,
        notification_id: str,
        *,
        type: Literal["webhook"] | None = None,
        url: str | None = None,
        signing_key: str | None = None,
    ) -> Call[Notification]:
        """Change a notification. What is None stays; `signing_key=""` removes the key.

        >>> client.update_notification("pager", url="http://127.0.0.1:9/two").url
        'http://127.0.0.1:9/two'
        """
        given = {"type": type, "url": url, "signing_key": signing_key}
        body = msgspec.json.encode({name: value for name, value in given.items() if value is not None})
        target = path("api", "v1", "notifications", notification_id)
        return Call("PATCH", target, read_one(Notification), body, JSON, Repeat.SAME)

    @operation
    def list_relayers(self, *, page: int | None = None, per_page: int | None = None) -> Call[Page[Relayer]]:
        """One page of the relayers, oldest first.

        >>> client.list_relayers().total_items
        1
        """
        return Call("GET", with_query(_RELAYERS, page=page, per_page=per_page), read_page(Relayer))

    relayers = walk(list_relayers)

    @operation
    def fee_estimate(self, relayer_id: str, *, transaction: str, network: str, fee_token: str) -> Call[FeeEstimate]:
        """What an encoded transaction costs through a relayer. Raises `RpcError` when there is no estimate.

        >>> from relaydeck.client import NodeUnreachable
        >>> try:
        ...     fee = client.fee_estimate("sepolia-1", transaction=TRANSACTION, network="sepolia", fee_token="ETH")
        ... except NodeUnreachable as error:
        ...     print(error.description)
        http://127.0.0.1:9 refused the connection
        """
        params = {"fee_token": fee_token, "network": network, "transaction": transaction}
        call = _rpc(relayer_id, "feeEstimate", params)
        return call._replace(read=_read_estimate, repeat=Repeat.READ)

    @operation
    def rpc(self, relayer_id: str, method: str, params: Mapping[str, Any]) -> Call[Any]:
        """Run any JSON-RPC method through a relayer and return its `result`. Raises `RpcError`.

        The client cannot know whether a method changes something, so it repeats the call only when it was not carried
        out.

        >>> from relaydeck.client import MethodNotFound
        >>> try:
        ...     client.rpc("sepolia-1", "sendTransaction", {})
        ... except MethodNotFound as error:
        ...     print(error)
        Method not found (-32601): feeEstimate is the only method.
        """
        return _rpc(relayer_id, method, params)


class _AnyOperation(AdminOperations):
    def __init__(self, client: "Client | AsyncClient") -> None:
        self._run: Any = client._run
        self._walk: Any = client._walk

    @operation
    def request(
        self,
        method: Literal["GET", "POST", "PATCH", "DELETE"],
        *segments: str,
        query: Mapping[str, object] | None = None,
        document: object = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[Body]:
        """Any operation below `/admin/v1`, with JSON values: for fields and operations that have no type here.

        >>> client.admin.request("GET", "relayers", "sepolia-1").data["name"]
        'Sepolia one'
        """
        return admin_call(
            method,
            segments,
            read_body,
            query=query,
            document=document,
            if_match=if_match,
            idempotency_key=idempotency_key,
        )


class Admin(_AnyOperation, Blocking):
    """The operations of `/admin/v1`; needs a token with a role such as `viewer`."""


class AsyncAdmin(_AnyOperation, Asynchronous):
    """The operations of `/admin/v1`; needs a token with a role such as `viewer`."""


class _Service(ContractOperations):
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
        self._address = read_address(url)
        self._exchange = Exchange(self._address.prefix, token, retry or Retry())
        self._connect(timeout, ssl_context, max_response_bytes)

    def _connect(self, *options: Any) -> None:
        """Sets `_transport` and `admin`."""
        raise NotImplementedError

    @property
    def revision(self) -> int:
        """The newest write of this client. Set it to read what another process wrote, whichever replica answers."""
        return self._exchange.revision

    @revision.setter
    def revision(self, revision: int) -> None:
        self._exchange.revision = revision

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.origin + self._address.prefix!r}, token='***')"


class Client(_Service, Blocking):
    """A service at `url`, as the holder of `token` sees it. Safe to share between threads; connections are reused.

    `timeout` is the number of seconds one attempt may take from its first byte to its last.
    A response of more than `max_response_bytes` is not read to its end.

    >>> from relaydeck.client import Client
    >>> with Client(URL, TOKEN, timeout=5.0) as client:
    ...     print(client.list_signers().items[0].id)
    ops
    """

    def _connect(self, *options: Any) -> None:
        from relaydeck.client.blocking_transport import ConnectionPool  # not needed by a receiver of webhooks

        self._transport = ConnectionPool(self._address, *options)
        self.admin = Admin(self)

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

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

    def _walk(self, first: Call[Page[T]], following: Callable[[Page[T]], Call[Page[T]] | None]) -> Iterator[T]:
        call: Call[Page[T]] | None = first
        while call is not None:
            page = self._run(call)
            yield from page.items
            call = following(page)


class AsyncClient(_Service, Asynchronous):
    """A service at `url`, as the holder of `token` sees it, for one event loop. Connections are reused.

    Its methods are those of `Client`, awaited; iterators are asynchronous.

    >>> import asyncio
    >>> from relaydeck.client import AsyncClient
    >>> async def first() -> str:
    ...     async with AsyncClient(URL, TOKEN) as client:
    ...         async for signer in client.signers():
    ...             return signer.id
    >>> asyncio.run(first())
    'ops'
    """

    def _connect(self, *options: Any) -> None:
        from relaydeck.client.async_transport import Session  # aiohttp takes longer to import than all the rest

        self._transport = Session(self._address, *options)
        self.admin = AsyncAdmin(self)

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def _run(self, call: Call[T]) -> T:
        steps: Steps[T] = self._exchange.run(call)
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            outcome = await (self._transport.send(step) if isinstance(step, Request) else self._transport.wait(step))

    async def _walk(
        self, first: Call[Page[T]], following: Callable[[Page[T]], Call[Page[T]] | None]
    ) -> AsyncIterator[T]:
        call: Call[Page[T]] | None = first
        while call is not None:
            page = await self._run(call)
            for item in page.items:
                yield item
            call = following(page)


def _signers(page: int | None, per_page: int | None) -> Call[Page[Signer]]:
    return Call("GET", with_query(_SIGNERS, page=page, per_page=per_page), read_page(Signer))


def _recognised(error: ApiError, name: str, type: str, config: Mapping[str, Any]) -> Generator[Call[Any], Any, Signer]:
    """Of a create whose first attempt may have succeeded: the signer, when one of the newest is the one sent.

    Creation order is list order, so a signer made moments ago is at the end. One with this id that was there before
    is usually not, and then the error stands.
    """
    if not isinstance(error, SignerExists):
        raise error
    first: Page[Signer] = yield _signers(1, PAGE_SIZE)
    size = first.pagination.per_page if first.pagination else PAGE_SIZE
    last = max(1, -(-first.total_items // size))
    for number in (last, last - 1):
        found = first if number <= 1 else (yield _signers(number, size))
        for signer in found:
            if signer.id == name and _is_as_sent(signer, type, config):
                return with_meta(signer, Meta({}, recognised=True))
    raise error


def _is_as_sent(signer: Signer, type: str, config: Mapping[str, Any]) -> bool:
    shown = "local" if type == "plain" else type
    return signer.type == shown and all(config.get(field) == value for field, value in signer.config.items())


class _RpcError(msgspec.Struct, frozen=True):
    code: int
    message: str
    description: str = ""


class _RpcResponse(msgspec.Struct, frozen=True):
    jsonrpc: str
    id: str | int | None = None
    result: msgspec.Raw = msgspec.Raw(b"")
    error: _RpcError | None = None


def _rpc(relayer_id: str, method: str, params: Mapping[str, Any]) -> Call[Any]:
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": _RPC_ID, "method": method, "params": params})
    target = path("api", "v1", "relayers", relayer_id, "rpc")
    return Call("POST", target, lambda response: _read_result(response, Any), body, JSON, Repeat.NEVER)


def _read_estimate(response: Response) -> FeeEstimate:
    estimate: FeeEstimate = _read_result(response, FeeEstimate)
    return with_meta(estimate, Meta(response.headers))


def _read_result(response: Response, kind: Any) -> Any:
    try:
        found = msgspec.json.decode(response.body, type=_RpcResponse)
        result = msgspec.json.decode(found.result, type=kind) if found.error is None else None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        problem = f"the response is not a JSON-RPC response as described: {error}"
        raise UnexpectedResponse(problem, status=response.status) from None
    if str(found.id) != str(_RPC_ID):
        raise UnexpectedResponse("the JSON-RPC response has the id of another request", status=response.status)
    if found.error is not None:
        raise RpcError.class_of(found.error.code)(*msgspec.structs.astuple(found.error))
    return result
