"""Every way a call can fail, and what each failure means for the caller.

    ClientError
    ├── TransportError                       no complete response arrived
    │   ├── ConnectFailed                    no connection was made, so nothing was sent
    │   ├── ConnectionLost                   the connection broke after the request was sent, or the body was cut
    │   └── TimedOut                         the time for one attempt ran out
    ├── UnexpectedResponse                   a response arrived that this interface does not describe
    ├── ApiError                             the service refused or failed: status + message
    │   ├── BadRequest               400     "Bad Request"
    │   │   └── BodyTooLarge         413     "Bad Request"
    │   ├── Unauthorized             401     "Unauthorized"
    │   ├── Forbidden                403     /admin/v1: the token is not of kind admin
    │   ├── NotFound                 404     the path, or on /admin/v1 any other record
    │   │   ├── NotificationNotFound         "Notification not found"
    │   │   └── RelayerNotFound              "Relayer with ID <relayer_id> not found"
    │   ├── MethodNotAllowed         405
    │   ├── Conflict                 409     /admin/v1: the name is taken, or the record is still in use
    │   │   └── SignerExists                 "Signer with this ID already exists"
    │   ├── PreconditionFailed       412     /admin/v1: the record changed since `if_match`
    │   ├── Unprocessable            422     /admin/v1: the idempotency key belongs to another request
    │   ├── TooManyRequests          429     "Too Many Requests"
    │   └── ServerError              5xx     "Internal Server Error"
    ├── RpcError                             the `error` object of a JSON-RPC response: code + description
    │   ├── MethodNotFound        -32601
    │   ├── InvalidParams         -32602
    │   ├── InternalError         -32603
    │   ├── NodeUnreachable       -32000
    │   ├── ExecutionReverted     -32001
    │   ├── ReceiverNotAllowed    -32002
    │   ├── NoFreshRate           -32003
    │   ├── NodeRefused           -32004
    │   └── NodesDisagree         -32005
    └── WebhookError                         a received webhook is not to be believed
        ├── MissingHeader
        ├── StaleTimestamp
        └── WrongSignature

`uncertain` is true on an error after which the service may still have made the change: a connection that broke
after the request was sent, a timeout, a status of 5xx, in this attempt or in an earlier one.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class ClientError(Exception):
    """The base class: `except ClientError` catches everything the client raises on purpose."""

    uncertain: bool = False


class TransportError(ClientError):
    """No complete response arrived. `sent` tells whether the service may have received the request."""

    sent: ClassVar[bool] = True

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.uncertain = self.sent


class ConnectFailed(TransportError):
    sent = False


class ConnectionLost(TransportError):
    pass


class TimedOut(TransportError):
    pass


class UnexpectedResponse(ClientError):
    """The response is not one this interface describes: a proxy's page, a redirect, another server."""

    def __init__(self, problem: str, *, status: int) -> None:
        super().__init__(f"{problem} (HTTP status {status})")
        self.status = status
        self.uncertain = True


class ApiError(ClientError):
    """`message` is the service's; `reason` says what exactly was wrong; `problem` holds RFC 9457 members."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str = "",
        request_id: str = "",
        retry_after: float | None = None,
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.request_id = request_id
        self.retry_after = retry_after
        self.problem = dict(problem or {})
        self.uncertain = status >= 500

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        request = f" [request {self.request_id}]" if self.request_id else ""
        return f"{self.message} ({self.status}){reason}{request}"


class BadRequest(ApiError):
    pass


class BodyTooLarge(BadRequest):
    pass


class Unauthorized(ApiError):
    pass


class Forbidden(ApiError):
    pass


class NotFound(ApiError):
    pass


class NotificationNotFound(NotFound):
    pass


class RelayerNotFound(NotFound):
    pass


class MethodNotAllowed(ApiError):
    pass


class Conflict(ApiError):
    pass


class SignerExists(Conflict):
    pass


class PreconditionFailed(ApiError):
    pass


class Unprocessable(ApiError):
    pass


class TooManyRequests(ApiError):
    """`retry_after`: the seconds the service asks to wait."""


class ServerError(ApiError):
    pass


class RpcError(ClientError):
    """The call was well-formed and failed; `code`, `message` and `description` come from the response."""

    def __init__(self, code: int, message: str, description: str) -> None:
        super().__init__(f"{message} ({code}): {description}" if description else f"{message} ({code})")
        self.code = code
        self.message = message
        self.description = description


class MethodNotFound(RpcError):
    pass


class InvalidParams(RpcError):
    pass


class InternalError(RpcError):
    pass


class NodeUnreachable(RpcError):
    pass


class ExecutionReverted(RpcError):
    pass


class ReceiverNotAllowed(RpcError):
    pass


class NoFreshRate(RpcError):
    pass


class NodeRefused(RpcError):
    pass


class NodesDisagree(RpcError):
    """Too few nodes agree on the price of gas."""


class WebhookError(ClientError):
    """Do not act on the message: answer it with a status of 400 or 401."""


class MissingHeader(WebhookError):
    pass


class StaleTimestamp(WebhookError):
    pass


class WrongSignature(WebhookError):
    pass


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    412: PreconditionFailed,
    413: BodyTooLarge,
    422: Unprocessable,
    429: TooManyRequests,
}
# The contract shows messages and leaves statuses open, so a message says more than a status.
_BY_MESSAGE: dict[str, type[ApiError]] = {
    "Unauthorized": Unauthorized,
    "Signer with this ID already exists": SignerExists,
    "Notification not found": NotificationNotFound,
    "Too Many Requests": TooManyRequests,
    "Internal Server Error": ServerError,
}
_BY_CODE: dict[int, type[RpcError]] = {
    -32601: MethodNotFound,
    -32602: InvalidParams,
    -32603: InternalError,
    -32000: NodeUnreachable,
    -32001: ExecutionReverted,
    -32002: ReceiverNotAllowed,
    -32003: NoFreshRate,
    -32004: NodeRefused,
    -32005: NodesDisagree,
}


def api_error_class(status: int, message: str) -> type[ApiError]:
    if message in _BY_MESSAGE:
        return _BY_MESSAGE[message]
    if message.startswith("Relayer with ID ") and message.endswith(" not found"):
        return RelayerNotFound
    if status >= 500:
        return ServerError
    fallback = BadRequest if message == "Bad Request" else ApiError
    return _BY_STATUS.get(status, fallback)


def rpc_error(code: int, message: str, description: str) -> RpcError:
    return _BY_CODE.get(code, RpcError)(code, message, description)
