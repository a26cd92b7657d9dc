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
    │   ├── Forbidden                403     /admin/v1: the role or the scope of the credential does not allow it
    │   ├── NotFound                 404     the path, or on /admin/v1 any other record
    │   │   ├── NotificationNotFound         "Notification not found"
    │   │   └── RelayerNotFound              "Relayer with ID <relayer_id> not found"
    │   ├── MethodNotAllowed         405
    │   ├── Conflict                 409     /admin/v1: the name is taken, or the record is still in use
    │   │   └── SignerExists                 "Signer with this ID already exists"
    │   ├── ChangeProposed           202     /admin/v1: the change needs approval; `problem` is the proposal
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


class ConnectionLost(TransportError): ...


class TimedOut(TransportError): ...


class UnexpectedResponse(ClientError):
    """The response is not one this interface describes: a proxy's page, a redirect, another server."""

    def __init__(self, problem: str, *, status: int) -> None:
        super().__init__(f"{problem} (HTTP status {status})")
        self.status = status
        self.uncertain = True


class ApiError(ClientError):
    """`message` is the service's; `reason` says what exactly was wrong; `problem` holds RFC 9457 members.

    The contract shows messages and leaves statuses open, so a message says more than a status.
    """

    _classes: ClassVar[dict[int | str, type["ApiError"]]] = {}  # by status, and by message

    def __init_subclass__(cls, *, of: int = 0, message: str = "") -> None:
        cls._classes |= {key: cls for key in (of, message) if key}

    @classmethod
    def class_of(cls, status: int, message: str) -> type["ApiError"]:
        if message in cls._classes:
            return cls._classes[message]
        if message.startswith("Relayer with ID ") and message.endswith(" not found"):
            return RelayerNotFound
        if status >= 500:
            return ServerError
        return cls._classes.get(status, BadRequest if message == "Bad Request" else ApiError)

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


class BadRequest(ApiError, of=400): ...


class BodyTooLarge(BadRequest, of=413): ...


class Unauthorized(ApiError, of=401, message="Unauthorized"): ...


class Forbidden(ApiError, of=403): ...


class NotFound(ApiError, of=404): ...


class NotificationNotFound(NotFound, message="Notification not found"): ...


class RelayerNotFound(NotFound): ...


class MethodNotAllowed(ApiError, of=405): ...


class Conflict(ApiError, of=409): ...


class SignerExists(Conflict, message="Signer with this ID already exists"): ...


class ChangeProposed(ApiError, of=202):
    """Nothing has changed yet: another has to approve the change. `problem` is the proposal, with its `id`."""


class PreconditionFailed(ApiError, of=412): ...


class Unprocessable(ApiError, of=422): ...


class TooManyRequests(ApiError, of=429, message="Too Many Requests"):
    """`retry_after`: the seconds the service asks to wait."""


class ServerError(ApiError, message="Internal Server Error"): ...


class RpcError(ClientError):
    """The call was well-formed and failed; `code`, `message` and `description` come from the response."""

    _classes: ClassVar[dict[int, type["RpcError"]]] = {}

    def __init_subclass__(cls, *, of: int = 0) -> None:
        if of:
            cls._classes[of] = cls

    @classmethod
    def class_of(cls, code: int) -> type["RpcError"]:
        return cls._classes.get(code, RpcError)

    def __init__(self, code: int, message: str, description: str) -> None:
        super().__init__(f"{message} ({code}): {description}" if description else f"{message} ({code})")
        self.code = code
        self.message = message
        self.description = description


class MethodNotFound(RpcError, of=-32601): ...


class InvalidParams(RpcError, of=-32602): ...


class InternalError(RpcError, of=-32603): ...


class NodeUnreachable(RpcError, of=-32000): ...


class ExecutionReverted(RpcError, of=-32001): ...


class ReceiverNotAllowed(RpcError, of=-32002): ...


class NoFreshRate(RpcError, of=-32003): ...


class NodeRefused(RpcError, of=-32004): ...


class NodesDisagree(RpcError, of=-32005):
    """Too few nodes agree on the price of gas."""


class WebhookError(ClientError):
    """Do not act on the message: answer it with a status of 400 or 401."""


class MissingHeader(WebhookError): ...


class StaleTimestamp(WebhookError): ...


class WrongSignature(WebhookError): ...
