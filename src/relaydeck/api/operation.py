"""An entry of the table of operations, and the five of `/api/v1`, which a service needs without the others."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from relaydeck.api import wire
from relaydeck.api.list_filters import Parameter
from relaydeck.notifications.model import Notification
from relaydeck.relayers.model import Relayer
from relaydeck.roles import Permission

CONTRACT, ADMIN = "/api/v1", "/admin/v1"
Method = Literal["GET", "POST", "PATCH", "DELETE"]


@dataclass(frozen=True)
class Operation:
    """`name` is that of the client's method. `path` is below `root`; a part of it in braces is an identifier."""

    name: str
    method: Method
    path: str
    help: str
    response: type[msgspec.Struct] | None = None  # None: the data is null
    request: type[msgspec.Struct] | None = None  # None: it takes no body
    status: int = 200
    is_list: bool = False  # its data is a list of `response`
    is_paged: bool = False
    query: tuple[Parameter, ...] = ()
    changes: bool = True  # whether a POST changes something
    conditional: bool = False  # whether it takes If-Match
    command: str = ""  # `audit head`: the command that prints its response. Empty: none, or one declared in `cli/`
    details: str = ""  # what follows `help` in the document of `/api/v1`, or in the help of the command
    permission: Permission = "view"  # what the credential must grant
    root: str = ADMIN
    section: str = ""  # of the contract, which describes an operation of `/api/v1`
    limited: bool = False  # whether it is rate-limited

    def __post_init__(self) -> None:
        assert self.method == "GET" or self.permission != "view", f"declare the permission of {self.name}"

    @property
    def is_change(self) -> bool:
        return self.method != "GET" and self.changes

    @property
    def may_need_two(self) -> bool:
        """Whether it becomes a proposal if it concerns what is protected."""
        return self.permission == "change" or self.name == "delete_protection"

    @property
    def is_repeatable(self) -> bool:
        return self.method == "POST" and self.changes

    @property
    def label(self) -> str:
        """Distinguishes it from others in stored responses, so it must not change: `relayers.create`."""
        match self.path.split("/"):
            case [collection]:
                return collection if collection == "apply" else f"{collection}.create"
            case [collection, verb]:
                return f"{collection}.{verb}_all"
            case [collection, _, verb]:
                return f"{collection}.{verb}"
        raise ValueError(self.path)

    @property
    def has_identifier(self) -> bool:
        return "{" in self.path

    @property
    def whole_path(self) -> str:
        return f"{self.root}/{self.path}"

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        return {each.name: each for each in self.query}


def _described(section: str, name: str, method: Method, path: str, help: str, details: str, **more: Any) -> Operation:
    return Operation(name, method, path, help, details=details, root=CONTRACT, section=section, **more)


CONTRACT_OPERATIONS = (
    _described(
        "4.2",
        "list_signers",
        "GET",
        "signers",
        "List signers",
        "Signers in the order they were created, oldest first.",
        permission="list",
        response=wire.Signer,
        is_list=True,
    ),
    _described(
        "4.1",
        "create_signer",
        "POST",
        "signers",
        "Create a signer",
        "Stores a signer. The response is sent when the signer is on disk, with its secrets encrypted. A value of the "
        "right type that cannot work is stored too, with a hint in `metadata.logs`.",
        permission="call",
        request=wire.SignerRequest,
        response=wire.Signer,
        status=201,
    ),
    _described(
        "4.3",
        "update_notification",
        "PATCH",
        "notifications/{notification_id}",
        "Update a notification",
        "Changes the fields in the body and leaves the others as they are.",
        permission="call",
        request=wire.NotificationUpdate,
        response=Notification,
    ),
    _described(
        "4.4",
        "list_relayers",
        "GET",
        "relayers",
        "List relayers",
        "Relayers in the order they were created, oldest first. Rate-limited.",
        permission="list",
        response=Relayer,
        is_list=True,
        limited=True,
    ),
    _described(
        "4.5",
        "relayer_rpc",
        "POST",
        "relayers/{relayer_id}/rpc",
        "Run a JSON-RPC call through a relayer",
        "`feeEstimate` is the only method. A body that is not a JSON-RPC request is a Bad Request. A failure of a "
        "valid request is in the `error` object of the response, with status 200. Rate-limited, with the same "
        "allowance as the list of relayers.",
        permission="call",
        request=wire.RpcRequest,
        response=wire.RpcResponse,
        changes=False,
        limited=True,
    ),
)
