"""Every operation of `/admin/v1`, in the order of its reference page.

Routes, the OpenAPI document, the methods of the client and the calls of commands and of the console are derived from
this table. An operation without a handler, or a handler without an operation, is an error when `admin` is imported.
"""

import msgspec

from relaydeck.api import records
from relaydeck.api.list_filters import FILTERS, Parameter, order_of
from relaydeck.api.operation import Operation
from relaydeck.doctor import AuditVerification, Finding
from relaydeck.networks.model import Network
from relaydeck.notifications.model import EventBody, Notification
from relaydeck.quantities import SPAN_PATTERN
from relaydeck.relayers.balance_history import BalanceHistory
from relaydeck.relayers.model import Relayer
from relaydeck.relayers.runway import FirstRunways, Runway
from relaydeck.relayers.why import Explanation
from relaydeck.signers.check import SignerCheckReport

_PAGE = Parameter("page", "As on `/api/v1`.", is_integer=True)
_PER_PAGE = Parameter("per_page", "As on `/api/v1`.", is_integer=True)
IDEMPOTENCY_KEY = "[!-~]{1,255}"  # what the header Idempotency-Key may be


def _listing(path: str, name: str, help: str, response: type[msgspec.Struct], *, is_paged: bool = True) -> Operation:
    query = (*FILTERS[path], *((_PAGE,) if is_paged else ()), order_of(path), _PER_PAGE)
    return Operation(name, "GET", path, help, response, is_list=True, is_paged=is_paged, query=query)


def _resource(
    plural: str, shown: type[msgspec.Struct], request: type[msgspec.Struct], change: type[msgspec.Struct] | None = None
) -> tuple[Operation, ...]:
    """`change`: the body of a change, where it is not that of a creation."""
    one, word = f"{plural}/{{id}}", plural[:-1]
    return (
        _listing(plural, f"list_{plural}", f"List {plural}", shown),
        Operation(f"create_{word}", "POST", plural, f"Create a {word}", shown, request, 201, permission="change"),
        Operation(f"get_{word}", "GET", one, f"Read a {word}", shown),
        Operation(
            f"update_{word}",
            "PATCH",
            one,
            f"Change a {word}",
            shown,
            change or request,
            conditional=True,
            permission="change",
        ),
        Operation(f"delete_{word}", "DELETE", one, f"Delete a {word}", conditional=True, permission="change"),
    )


NETWORKS = _resource("networks", Network, Network)
SIGNERS = _resource("signers", records.Signer, records.SignerRequest, records.SignerChange)
CHECK_SIGNER = Operation(
    "check_signer",
    "POST",
    "signers/{id}/check",
    "Check that a signer reaches its key",
    SignerCheckReport,
    permission="operate",
)
LIST_SIGNER_DRIVERS = Operation(
    "list_signer_drivers",
    "GET",
    "signer-drivers",
    "List the bound drivers",
    records.SignerDriver,
    is_list=True,
    command="signer drivers",
)
NOTIFICATIONS = _resource("notifications", Notification, Notification)
TEST_NOTIFICATION = Operation(
    "test_notification",
    "POST",
    "notifications/{id}/test",
    "Send a test event",
    EventBody,
    status=201,
    permission="operate",
)
RELAYERS = _resource("relayers", Relayer, Relayer)
PAUSE_RELAYER = Operation(
    "pause_relayer", "POST", "relayers/{id}/pause", "Pause a relayer", Relayer, permission="operate"
)
RESUME_RELAYER = Operation(
    "resume_relayer", "POST", "relayers/{id}/resume", "Resume a relayer", Relayer, permission="operate"
)
EXPLAIN_RELAYER = Operation(
    "explain_relayer",
    "GET",
    "relayers/{id}/why",
    "Explain a relayer's state",
    Explanation,
    query=(
        Parameter(
            "probe",
            "Whether to call each node now: true (the default) or false.",
            choices={"true": "", "false": ""},
            example="true",
        ),
    ),
)
GET_RELAYER_BALANCES = Operation(
    "get_relayer_balances",
    "GET",
    "relayers/{id}/balances",
    "Read a relayer's balance history",
    BalanceHistory,
    query=(
        Parameter(
            "from",
            "The first moment, as in RFC 3339. Default: a day before `to`.",
            example="2026-03-01T00:00:00Z",
            schema={"format": "date-time"},
        ),
        Parameter(
            "to",
            "The last moment, as in RFC 3339. Default: now.",
            example="2026-03-02T00:00:00Z",
            schema={"format": "date-time"},
        ),
        Parameter(
            "step",
            "The time between two points: 90s, 5m, 1h, 1d. Default: a minute, ten minutes, an hour or a day, the "
            "shortest that makes at most 300 steps.",
            example="10m",
            schema={"pattern": SPAN_PATTERN},
        ),
    ),
)
EXPLAIN_ESTIMATE = Operation(
    "explain_estimate",
    "POST",
    "relayers/{id}/estimate",
    "Estimate a fee and show every step",
    records.EstimateReport,
    records.EstimateRequest,
    changes=False,
    permission="operate",
)
_DAYS = Parameter(
    "days",
    "How many days `needed` is to last. Default: 30.",
    is_integer=True,
    example="30",
    schema={"minimum": 1, "maximum": 3650},
)
GET_RELAYER_RUNWAY = Operation(
    "get_relayer_runway", "GET", "relayers/{id}/runway", "Forecast how long a balance lasts", Runway, query=(_DAYS,)
)
LIST_RUNWAYS = Operation(
    "list_runways",
    "GET",
    "runways",
    "List what runs out first",
    FirstRunways,
    query=(
        Parameter(
            "first",
            "How many relayers to return, 1 to 1000. Default: 20.",
            is_integer=True,
            example="20",
            schema={"minimum": 1, "maximum": 1000},
        ),
        *FILTERS["relayers"],
        _DAYS,
    ),
)
APPLY = Operation(
    "apply",
    "POST",
    "apply",
    "Make the records match a document",
    records.ApplyReport,
    records.ApplyRequest,
    conditional=True,
    permission="change",
)
EXPORT = Operation("export", "GET", "export", "Write the records as an apply file", records.ExportedFile)
LIST_TOKENS = _listing("tokens", "list_tokens", "List tokens", records.Token)
CREATE_TOKEN = Operation(
    "create_token",
    "POST",
    "tokens",
    "Issue a token",
    records.NewToken,
    records.TokenRequest,
    status=201,
    permission="own",
)
ROTATE_TOKEN = Operation(
    "rotate_token",
    "POST",
    "tokens/{id}/rotate",
    "Give a token a new secret",
    records.RotatedToken,
    records.RotationRequest,
    permission="own",
)
REVOKE_TOKEN = Operation("revoke_token", "DELETE", "tokens/{id}", "Revoke a token", permission="own")
LIST_EVENTS = _listing("events", "list_events", "List events", EventBody, is_paged=False)
GET_EVENT = Operation("get_event", "GET", "events/{id}", "Read an event", EventBody)
LIST_DELIVERIES = _listing("deliveries", "list_deliveries", "List deliveries", records.Delivery, is_paged=False)
GET_DELIVERY = Operation(
    "get_delivery", "GET", "deliveries/{id}", "Read a delivery with every attempt", records.DeliveryWithAttempts
)
REPLAY_DELIVERY = Operation(
    "replay_delivery",
    "POST",
    "deliveries/{id}/replay",
    "Send a delivery again",
    records.DeliveryWithAttempts,
    permission="operate",
)
REPLAY_DEAD = Operation(
    "replay_dead",
    "POST",
    "deliveries/replay",
    "Send every dead delivery again",
    records.Replayed,
    permission="operate",
    query=tuple(each for each in FILTERS["deliveries"] if each.name in ("notification_id", "relayer_id")),
)
LIST_AUDIT = _listing("audit", "list_audit", "List changes", records.AuditEntry)
GET_AUDIT_HEAD = Operation(
    "get_audit_head",
    "GET",
    "audit/head",
    "Read the head of the audit log",
    records.AuditHead,
    command="audit head",
    details="Keep it elsewhere to detect later that entries were removed.",
)
VERIFY_AUDIT = Operation(
    "verify_audit",
    "GET",
    "audit/verify",
    "Verify every link of the audit log",
    AuditVerification,
    query=(
        Parameter(
            "head",
            "An earlier head, which the log must contain.",
            example="7:" + "c0ffee00" * 8,
            schema={"pattern": "^[0-9]{1,18}:[0-9a-f]{64}$"},
        ),
    ),
)
WHOAMI = Operation(
    "whoami", "GET", "whoami", "Say who you are, by which rule, and until when", records.WhoAmI, permission="list"
)
FIND = Operation(
    "find",
    "GET",
    "find",
    "Find records by a part of an id, a name or an address",
    records.Found,
    is_list=True,
    query=(
        Parameter(
            "text",
            "The beginning of an id, a name or an address, the end of an address, or any part of one of the 20,000"
            " newest records of a kind. Blanks around it do not count.",
            example="sepolia",
        ),
        Parameter(
            "first",
            "How many to return, 1 to 100. Default: 20.",
            is_integer=True,
            example="20",
            schema={"minimum": 1, "maximum": 100},
        ),
    ),
)
RUN_DOCTOR = Operation("run_doctor", "GET", "doctor", "Check the service and what it depends on", Finding, is_list=True)

# Those above, in the order in which they are declared.
OPERATIONS: tuple[Operation, ...] = tuple(
    each
    for declared in tuple(vars().values())
    for each in (declared if isinstance(declared, tuple) else (declared,))
    if isinstance(each, Operation)
)
BY_NAME = {each.name: each for each in OPERATIONS}

# Those that keep to the scope of their credential. One that is about the whole service is refused to a scoped one.
SCOPED = frozenset(
    each.name
    for each in (
        *(*NETWORKS, *SIGNERS, *NOTIFICATIONS, *RELAYERS),
        *(CHECK_SIGNER, LIST_SIGNER_DRIVERS, TEST_NOTIFICATION),
        *(PAUSE_RELAYER, RESUME_RELAYER, EXPLAIN_RELAYER, EXPLAIN_ESTIMATE),
        *(GET_RELAYER_BALANCES, GET_RELAYER_RUNWAY, LIST_RUNWAYS),
        *(WHOAMI, EXPORT, LIST_AUDIT, LIST_EVENTS, GET_EVENT),
        *(LIST_DELIVERIES, GET_DELIVERY, REPLAY_DELIVERY, REPLAY_DEAD),
    )
)
