"""The operations that are explored, and the home that they start from."""

import json
import tomllib
from typing import Any, NamedTuple

SIGNER_KEY = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
NEW_KEY = "1f" * 31 + "2e"
SIGNING_KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NEW_SIGNING_KEY = "whsec_explored_C2FVsBQIhrscChlQIMV"
RPC_KEY = "an-rpc-key-that-nobody-may-see"
SECRETS = (SIGNER_KEY, NEW_KEY, SIGNING_KEY, NEW_SIGNING_KEY)  # in no answer, and in clear nowhere
SEALED = (*SECRETS, RPC_KEY)  # in clear neither on disk nor in the log; an administrator sees the addresses of nodes

# The receiver's address is refused without a connection: what an event triggers stays inside the process.
DOCUMENT = f"""
[networks.dev]
network_type = "evm"
chain_id = 31337
native_symbol = "ETH"
rpc_urls = [{{ url = "http://127.0.0.1:9/{RPC_KEY}", weight = 1 }}]

[networks.spare]
network_type = "evm"
chain_id = 31338
native_symbol = "ETH"
rpc_urls = [{{ url = "http://127.0.0.1:9/{RPC_KEY}", weight = 1 }}]

[[signers]]
id = "ops"
type = "plain"
config = {{ key = "0x{SIGNER_KEY}" }}

[[signers]]
id = "spare"
type = "plain"
config = {{ key = "0x{SIGNER_KEY}" }}

[[notifications]]
id = "pager"
type = "webhook"
url = "https://127.0.0.1:9/hook"
signing_key = "{SIGNING_KEY}"

[[notifications]]
id = "spare"
type = "webhook"
url = "https://127.0.0.1:9/spare"

[[relayers]]
id = "one"
name = "One"
network = "dev"
network_type = "evm"
signer_id = "ops"
notification_id = "pager"

[[relayers]]
id = "two"
name = "Two"
network = "dev"
network_type = "evm"
signer_id = "ops"
notification_id = "pager"
"""
# The same state with a changed relayer, a new signer, and without what pruning removes.
CHANGED_DOCUMENT = (
    DOCUMENT.replace('name = "Two"', 'name = "Second"')
    .replace('[[notifications]]\nid = "spare"\ntype = "webhook"\nurl = "https://127.0.0.1:9/spare"\n', "")
    .replace(
        '[[signers]]\nid = "spare"',
        f'[[signers]]\nid = "fresh"\ntype = "plain"\nconfig = {{ key = "0x{NEW_KEY}" }}\n\n[[signers]]\nid = "spare"',
    )
)
PATIENT = {  # nothing but the operation itself happens while it runs
    "RELAYDECK_MONITOR_INTERVAL_SECONDS": "3600",
    "RELAYDECK_SIGNER_CHECK_SECONDS": "0",
    "RELAYDECK_LOG_FORMAT": "json",
}


class Request(NamedTuple):
    method: str
    path: str
    body: Any = None
    once: bool = False  # with an Idempotency-Key

    @property
    def content(self) -> bytes:
        return b"" if self.body is None else json.dumps(self.body).encode()


class Operation(NamedTuple):
    """A `request` is sent to a worker, a `command` runs as a process of its own, `life` starts or stops a worker."""

    name: str
    request: Request | None = None
    command: tuple[str, ...] = ()
    life: str = ""  # start, or stop after an acknowledged `request`
    stdin: str = ""
    done: int = 200  # the status of its success; a command that fails counts as 500
    repeated: int = 0  # the status of an attempt after one that was stored without an answer
    atomic: bool = True  # a fault leaves the state before it or after it
    revokes_during_hang: bool = False  # the token of the request, while the request hangs


def _post(path: str, body: Any = None) -> Request:
    return Request("POST", f"/admin/v1/{path}", body, once=True)


def _patch(path: str, body: Any) -> Request:
    return Request("PATCH", f"/admin/v1/{path}", body)


def _delete(path: str) -> Request:
    return Request("DELETE", f"/admin/v1/{path}")


_LOCAL = {"type": "plain", "config": {"key": f"0x{NEW_KEY}"}}
_NODES = [{"url": f"http://127.0.0.1:9/new/{RPC_KEY}", "weight": 1}]
_NETWORK = {"name": "new", "network_type": "evm", "chain_id": 7, "native_symbol": "ETH", "rpc_urls": _NODES}
_WEBHOOK = {"id": "new", "type": "webhook", "url": "https://127.0.0.1:9/new", "signing_key": NEW_SIGNING_KEY}
_RELAYER: dict[str, Any] = {"id": "new", "name": "New", "network": "dev", "network_type": "evm", "signer_id": "ops"}
_RELAYER |= {"notification_id": "pager", "custom_rpc_urls": _NODES}
_APPLIED = {"document": tomllib.loads(CHANGED_DOCUMENT), "prune": True}
_UPDATE = Request("PATCH", "/api/v1/notifications/pager", {"signing_key": NEW_SIGNING_KEY})

CONTRACT = (
    Operation("create signer", Request("POST", "/api/v1/signers", {"id": "new", **_LOCAL}), done=201, repeated=409),
    Operation("list signers", Request("GET", "/api/v1/signers")),
    Operation("update notification", _UPDATE),
    Operation("list relayers", Request("GET", "/api/v1/relayers")),
)
ADMIN = (
    Operation("create network", _post("networks", _NETWORK), done=201),
    Operation("change network", _patch("networks/dev", {"native_symbol": "WETH"})),
    Operation("delete network", _delete("networks/spare"), repeated=404),
    Operation("create signer (admin)", _post("signers", {"id": "new", **_LOCAL}), done=201),
    Operation("delete signer", _delete("signers/spare"), repeated=404),
    Operation("create notification", _post("notifications", _WEBHOOK), done=201),
    Operation("change notification", _patch("notifications/pager", {"url": "https://127.0.0.1:9/other"})),
    Operation("delete notification", _delete("notifications/spare"), repeated=404),
    Operation("test notification", _post("notifications/pager/test"), done=201),
    Operation("create relayer", _post("relayers", _RELAYER), done=201),
    Operation("change relayer", _patch("relayers/one", {"name": "First", "custom_rpc_urls": _NODES})),
    Operation("pause relayer", _post("relayers/one/pause")),
    Operation("resume relayer", _post("relayers/two/resume")),
    Operation("delete relayer", _delete("relayers/two"), repeated=404),
    Operation("create token", _post("tokens", {"name": "new", "kind": "readonly"}), done=201),
    Operation("revoke token", _delete("tokens/victim"), repeated=404),
    Operation("apply over HTTP", Request("POST", "/admin/v1/apply", _APPLIED)),
    Operation("update while the token is revoked", _UPDATE, revokes_during_hang=True),
)
COMMANDS = (
    Operation("apply", command=("apply", "-"), stdin=CHANGED_DOCUMENT),
    Operation("apply --prune", command=("apply", "-", "--prune", "--yes"), stdin=CHANGED_DOCUMENT),
    Operation("key rotate", command=("key", "rotate"), atomic=False),
    Operation("token create", command=("token", "create", "new"), repeated=500),
    Operation("token revoke", command=("token", "revoke", "victim"), repeated=500),
)
LIFE = (
    Operation("start", Request("GET", "/api/v1/relayers"), life="start"),
    Operation("stop", _post("relayers/one/pause"), life="stop"),
)
OPERATIONS = (*CONTRACT, *ADMIN, *COMMANDS, *LIFE)


def by_name(name: str) -> Operation:
    return next(each for each in OPERATIONS if each.name == name)
