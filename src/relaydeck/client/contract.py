"""The five operations of `/api/v1`, as calls. Both clients have a method of the same name for each."""

import uuid
from collections.abc import Generator, Mapping
from typing import Any, Literal

import msgspec

from relaydeck.client.calls import JSON, Call, Repeat, Walk, encode, path, read_one, read_page, walk_pages, with_query
from relaydeck.client.documents import SignerConfig, SignerType
from relaydeck.client.errors import ApiError, SignerExists, UnexpectedResponse, rpc_error
from relaydeck.client.messages import Response
from relaydeck.client.models import FeeEstimate, Meta, Notification, Page, Relayer, Signer, with_meta

SIGNERS = "/api/v1/signers"
RELAYERS = "/api/v1/relayers"
PAGE_SIZE = 1000
_RPC_ID = 1


def create_signer(type: SignerType, config: SignerConfig | Mapping[str, Any], *, id: str | None = None) -> Call[Signer]:
    """Create a signer. Without `id` the client makes a UUID, so that the call can be repeated safely.

    When a response is lost and the repeated call finds the id taken, the client looks the signer up among the newest:
    one with the same id, type and shown config is returned, with `meta.recognised` set; otherwise `SignerExists` is
    raised. Secret fields are never shown, so they take no part in that comparison.

    >>> client.create_signer("plain", {"key": "0x" + "11" * 32}, id="first")
    Signer(id='first', type='local', config={}, check=None, created_at=None)
    >>> client.create_signer("plain", {"key": "0x1234"}).meta.logs
    ('config.key is not a 32-byte hexadecimal private key, so it cannot sign',)
    """
    name = str(uuid.uuid4()) if id is None else id

    def settle(error: ApiError) -> Generator[Call[Any], Any, Signer]:
        return _recognised(error, name, type, config)

    body = encode({"id": name, "type": type, "config": config})
    return Call("POST", SIGNERS, read_one(Signer), body, JSON, Repeat.SAME, settle)


def list_signers(*, page: int | None = None, per_page: int | None = None) -> Call[Page[Signer]]:
    """One page of the signers, oldest first.

    >>> found = client.list_signers(per_page=2)
    >>> found.pagination.per_page
    2
    """
    return Call("GET", with_query(SIGNERS, page=page, per_page=per_page), read_page(Signer))


def signers(*, per_page: int = PAGE_SIZE) -> Walk[Signer]:
    """Every signer, oldest first, fetched `per_page` at a time.

    >>> [signer.id for signer in client.signers()][:1]
    ['ops']
    """
    return walk_pages(lambda page: list_signers(page=page, per_page=per_page))


def update_notification(
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
    body = encode({name: value for name, value in given.items() if value is not None})
    target = path("api", "v1", "notifications", notification_id)
    return Call("PATCH", target, read_one(Notification), body, JSON, Repeat.SAME)


def list_relayers(*, page: int | None = None, per_page: int | None = None) -> Call[Page[Relayer]]:
    """One page of the relayers, oldest first.

    >>> client.list_relayers().total_items
    1
    """
    return Call("GET", with_query(RELAYERS, page=page, per_page=per_page), read_page(Relayer))


def relayers(*, per_page: int = PAGE_SIZE) -> Walk[Relayer]:
    """Every relayer, oldest first, fetched `per_page` at a time.

    >>> [(relayer.id, relayer.policies.gas_price_cap) for relayer in client.relayers()]
    [('sepolia-1', 100000000000)]
    """
    return walk_pages(lambda page: list_relayers(page=page, per_page=per_page))


def fee_estimate(relayer_id: str, *, transaction: str, network: str, fee_token: str) -> Call[FeeEstimate]:
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


def rpc(relayer_id: str, method: str, params: Mapping[str, Any]) -> Call[Any]:
    """Run any JSON-RPC method through a relayer and return its `result`. Raises `RpcError`.

    The client cannot know whether a method changes something, so it repeats the call only when it was not carried out.

    >>> from relaydeck.client import MethodNotFound
    >>> try:
    ...     client.rpc("sepolia-1", "sendTransaction", {})
    ... except MethodNotFound as error:
    ...     print(error)
    Method not found (-32601): feeEstimate is the only method.
    """
    return _rpc(relayer_id, method, params)


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
    body = encode({"jsonrpc": "2.0", "id": _RPC_ID, "method": method, "params": params})
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
        raise rpc_error(found.error.code, found.error.message, found.error.description)
    return result


def _recognised(error: ApiError, name: str, type: str, config: Mapping[str, Any]) -> Generator[Call[Any], Any, Signer]:
    """Of a create whose first attempt may have succeeded: the signer, when one of the newest is the one sent.

    Creation order is list order, so a signer made moments ago is at the end. One with this id that was there before
    is usually not, and then the error stands.
    """
    if not isinstance(error, SignerExists):
        raise error
    first: Page[Signer] = yield list_signers(page=1, per_page=PAGE_SIZE)
    size = first.pagination.per_page if first.pagination else PAGE_SIZE
    last = max(1, -(-first.total_items // size))
    for number in (last, last - 1):
        found = first if number <= 1 else (yield list_signers(page=number, per_page=size))
        for signer in found:
            if signer.id == name and _is_as_sent(signer, type, config):
                return with_meta(signer, Meta({}, recognised=True))
    raise error


def _is_as_sent(signer: Signer, type: str, config: Mapping[str, Any]) -> bool:
    shown = "local" if type == "plain" else type
    return signer.type == shown and all(config.get(field) == value for field, value in signer.config.items())
