"""The operations that are explored, and the homes that they start from."""

import json
import tomllib
from typing import Any, NamedTuple

from tests.proofs.explore.boundary import KINDS
from tests.test_end_to_end import FILE, TRANSFER

SIGNER_KEY = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
NEW_KEY = "1f" * 31 + "2e"
SIGNING_KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NEW_SIGNING_KEY = "whsec_explored_C2FVsBQIhrscChlQIMV"
RPC_KEY = "an-rpc-key-that-nobody-may-see"
LIVE_KEY = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
SECRETS = (SIGNER_KEY, LIVE_KEY, NEW_KEY, SIGNING_KEY, NEW_SIGNING_KEY)  # in no answer, and in clear nowhere
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
# A relayer on a real node and a receiver that answers. The balance is below the minimum: a round reports it.
LIVE_DOCUMENT = FILE + f"policies = {{{{ min_balance = {10**24} }}}}\n"
PATIENT = {  # nothing but the operation itself happens while it runs
    "RELAYDECK_MONITOR_INTERVAL_SECONDS": "3600",
    "RELAYDECK_SIGNER_CHECK_SECONDS": "0",
    "RELAYDECK_LOG_FORMAT": "json",
}
_LOOPBACK = "127.0.0.0/8,::1/128"
ALLOWED = {
    "RELAYDECK_LEASE_SECONDS": "3",
    "RELAYDECK_WEBHOOK_ALLOW": _LOOPBACK,
    "RELAYDECK_RPC_ALLOW": _LOOPBACK,
}
BRIEF = {  # a silent peer keeps a run for a moment only
    "RELAYDECK_RPC_DEADLINE_SECONDS": "4",
    "RELAYDECK_RPC_TRY_TIMEOUT_SECONDS": "1.5",
    "RELAYDECK_WEBHOOK_TIMEOUT_SECONDS": "2",
}
LENIENT = {  # a busy machine is not a fault
    "RELAYDECK_RPC_DEADLINE_SECONDS": "60",
    "RELAYDECK_RPC_TRY_TIMEOUT_SECONDS": "30",
    "RELAYDECK_WEBHOOK_TIMEOUT_SECONDS": "10",  # after a crash the next process waits for this and a lease
}
LIMITED = {"RELAYDECK_RATE_LIMIT_PER_SECOND": "1", "RELAYDECK_RATE_LIMIT_BURST": "5"}


class Request(NamedTuple):
    method: str
    path: str
    body: Any = None
    once: bool = False  # with an Idempotency-Key

    @property
    def content(self) -> bytes:
        return b"" if self.body is None else json.dumps(self.body).encode()


class Operation(NamedTuple):
    """A `request` is sent to a worker, a `command` runs as a process of its own, `life` names another kind of run."""

    name: str
    request: Request | None = None
    command: tuple[str, ...] = ()
    life: str = ""  # see `subject.py`
    stdin: str = ""
    done: int = 200  # the status of its success; a command that fails counts as 500
    repeated: int = 0  # the status of an attempt after one that was stored without an answer
    atomic: bool = True  # a fault leaves the state before it or after it
    # Or `live`, with a node and a receiver; `pending`, with events to deliver as well; or `prepared`, with a new master
    # key in its file.
    home: str = "quiet"
    revokes_during_hang: bool = False  # the token of the request, while the request hangs
    taken_over: str = ""  # the lease that another process takes during a hang
    copies: str = ""  # to a `file` or a `database`: it must equal the source
    same_body: bool = False  # a success has the body that it has without a fault
    apart: tuple[str, ...] = ("attempts", "deliveries")  # a worker may have attempted a delivery by then
    kinds: tuple[str, ...] = KINDS

    @property
    def restores(self) -> bool:
        return self.name == "restore"


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

_ESTIMATE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "feeEstimate",
    "params": {"fee_token": "ETH", "network": "local", "transaction": TRANSFER},
}

CONTRACT = (
    Operation("create signer", Request("POST", "/api/v1/signers", {"id": "new", **_LOCAL}), done=201, repeated=409),
    Operation("list signers", Request("GET", "/api/v1/signers")),
    Operation("update notification", _UPDATE),
    Operation("list relayers", Request("GET", "/api/v1/relayers")),
    Operation("fee estimate", Request("POST", "/api/v1/relayers/local-1/rpc", _ESTIMATE), home="live", same_body=True),
    Operation("lists at the limit", Request("GET", "/api/v1/relayers"), life="limit"),
)
ADMIN = (
    Operation("create network", _post("networks", _NETWORK), done=201),
    Operation("change network", _patch("networks/dev", {"native_symbol": "WETH"})),
    Operation("delete network", _delete("networks/spare"), repeated=404),
    Operation("create signer (admin)", _post("signers", {"id": "new", **_LOCAL}), done=201),
    Operation("delete signer", _delete("signers/spare"), repeated=404),
    Operation("check signer", Request("POST", "/admin/v1/signers/ops/check")),
    Operation("create notification", _post("notifications", _WEBHOOK), done=201),
    Operation("change notification", _patch("notifications/pager", {"url": "https://127.0.0.1:9/other"})),
    Operation("delete notification", _delete("notifications/spare"), repeated=404),
    Operation("test notification", _post("notifications/pager/test"), done=201),
    Operation("send what waits", _post("notifications/pager/send"), home="pending"),
    Operation("replay deliveries", _post("deliveries/replay"), home="live"),
    Operation("create relayer", _post("relayers", _RELAYER), done=201),
    Operation("change relayer", _patch("relayers/one", {"name": "First", "custom_rpc_urls": _NODES})),
    Operation("pause relayer", _post("relayers/one/pause")),
    Operation("resume relayer", _post("relayers/two/resume")),
    Operation("delete relayer", _delete("relayers/two"), repeated=404),
    Operation("create token", _post("tokens", {"name": "new", "kind": "readonly"}), done=201),
    Operation("revoke token", _delete("tokens/victim"), repeated=404),
    Operation("apply over HTTP", Request("POST", "/admin/v1/apply", _APPLIED)),
    Operation("update while the token is revoked", _UPDATE, revokes_during_hang=True, kinds=("hang",)),
)
COMMANDS = (
    Operation("apply", command=("apply", "-"), stdin=CHANGED_DOCUMENT),
    Operation("apply --prune", command=("apply", "-", "--prune", "--yes"), stdin=CHANGED_DOCUMENT),
    Operation("key rotate", command=("key", "rotate"), atomic=False),
    # Killed, or a call fails. Calls that hang are tried with `key rotate`, whose statements it has; what it writes
    # beside them is a file that is replaced as a whole.
    Operation(
        "key rotate --master",
        command=("key", "rotate", "--master"),
        repeated=500,
        atomic=False,
        home="prepared",
        kinds=("error", "crash"),
    ),
    Operation("token create", command=("token", "create", "new"), repeated=500),
    Operation("token revoke", command=("token", "revoke", "victim"), repeated=500),
    Operation("backup", command=("backup", "create", "{copy}"), repeated=500, copies="file"),
    Operation("restore", command=("restore", "{backup}"), repeated=500, copies="database"),
    Operation("move", command=("db", "move", "--to", "-"), stdin="{target}\n", repeated=500, copies="database"),
)
_DELIVERY = Operation("deliver events", life="delivery", home="pending", atomic=False)
_ROUND = Operation("monitor round", life="monitor", home="live", atomic=False)
_LATE = " while another process takes over"
SERVICES = (
    _DELIVERY,
    _DELIVERY._replace(name=_DELIVERY.name + _LATE, taken_over="delivery", kinds=("hang",)),
    _ROUND,
    _ROUND._replace(name=_ROUND.name + _LATE, taken_over="monitor", kinds=("hang",)),
)
LIFE = (
    Operation("start", Request("GET", "/api/v1/relayers"), life="start"),
    Operation("stop", _post("relayers/one/pause"), life="stop"),
)
OPERATIONS = (*CONTRACT, *ADMIN, *COMMANDS, *SERVICES, *LIFE)


def by_name(name: str) -> Operation:
    return next(each for each in OPERATIONS if each.name == name)
