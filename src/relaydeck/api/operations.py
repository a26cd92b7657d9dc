"""Every operation of `/admin/v1`, in the order of its reference page.

Routes, the OpenAPI document, the methods of the client and the calls of commands and of the console are derived from
this table. An operation without a handler, or a handler without an operation, is an error when `admin` is imported.
"""

from functools import partial
from typing import Any

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
from relaydeck.roles import Permission
from relaydeck.signers.check import SignerCheckReport

_PAGE = Parameter("page", "As on `/api/v1`.", is_integer=True)
_PER_PAGE = Parameter("per_page", "As on `/api/v1`.", is_integer=True)
_REASON = Parameter(
    "reason",
    "Why you make the change, for those who approve it.",
    example="raise the price cap",
    schema={"maxLength": 500},
)
IDEMPOTENCY_KEY = "[!-~]{1,255}"  # what the header Idempotency-Key may be
_changing = partial(Operation, permission="change", query=(_REASON,))  # of records, which may be protected


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
        _changing(f"create_{word}", "POST", plural, f"Create a {word}", shown, request, 201),
        _reading(f"get_{word}", one, f"Read a {word}", shown),
        _changing(f"update_{word}", "PATCH", one, f"Change a {word}", shown, change or request, conditional=True),
        _changing(f"delete_{word}", "DELETE", one, f"Delete a {word}", conditional=True),
    )


def _reading(
    name: str, path: str, help: str, response: type[msgspec.Struct], *query: Parameter, **more: Any
) -> Operation:
    return Operation(name, "GET", path, help, response, query=query, **more)


def _action(
    name: str,
    path: str,
    help: str,
    response: type[msgspec.Struct],
    request: type[msgspec.Struct] | None = None,
    *,
    permission: Permission = "operate",
    **more: Any,
) -> Operation:
    return Operation(name, "POST", path, help, response, request, permission=permission, **more)


def _moment(name: str, description: str, example: str) -> Parameter:
    return Parameter(name, description, example=example, schema={"format": "date-time"})


def _number(name: str, description: str, example: int, *, most: int) -> Parameter:
    schema = {"minimum": 1, "maximum": most}
    return Parameter(name, description, is_integer=True, example=str(example), schema=schema)


NETWORKS = _resource("networks", Network, Network)
SIGNERS = _resource("signers", records.Signer, records.SignerRequest, records.SignerChange)
CHECK_SIGNER = _action("check_signer", "signers/{id}/check", "Check that a signer reaches its key", SignerCheckReport)
LIST_SIGNER_DRIVERS = _reading(
    "list_signer_drivers",
    "signer-drivers",
    "List the bound drivers",
    records.SignerDriver,
    is_list=True,
    command="signer drivers",
)
NOTIFICATIONS = _resource("notifications", Notification, Notification)
TEST_NOTIFICATION = _action("test_notification", "notifications/{id}/test", "Send a test event", EventBody, status=201)
SEND_WAITING = _action(
    "send_waiting",
    "notifications/{id}/send",
    "Send now the events that wait after a failed attempt",
    records.Replayed,
    command="notification send",
    details="An attempt that fails before its time does not count.",
)
RELAYERS = _resource("relayers", Relayer, Relayer)
PAUSE_RELAYER = _action("pause_relayer", "relayers/{id}/pause", "Pause a relayer", Relayer)
RESUME_RELAYER = _action("resume_relayer", "relayers/{id}/resume", "Resume a relayer", Relayer)
_PROBE = Parameter(
    "probe",
    "Whether to call each node now: true (the default) or false.",
    choices={"true": "", "false": ""},
    example="true",
)
EXPLAIN_RELAYER = _reading("explain_relayer", "relayers/{id}/why", "Explain a relayer's state", Explanation, _PROBE)
_STEP = Parameter(
    "step",
    "The time between two points: 90s, 5m, 1h, 1d. Default: a minute, ten minutes, an hour or a day, the shortest that"
    " makes at most 300 steps.",
    example="10m",
    schema={"pattern": SPAN_PATTERN},
)
GET_RELAYER_BALANCES = _reading(
    "get_relayer_balances",
    "relayers/{id}/balances",
    "Read a relayer's balance history",
    BalanceHistory,
    _moment("from", "The first moment, as in RFC 3339. Default: a day before `to`.", "2026-03-01T00:00:00Z"),
    _moment("to", "The last moment, as in RFC 3339. Default: now.", "2026-03-02T00:00:00Z"),
    _STEP,
)
EXPLAIN_ESTIMATE = _action(
    "explain_estimate",
    "relayers/{id}/estimate",
    "Estimate a fee and show every step",
    records.EstimateReport,
    records.EstimateRequest,
    changes=False,
)
_DAYS = _number("days", "How many days `needed` is to last. Default: 30.", 30, most=3650)
GET_RELAYER_RUNWAY = _reading(
    "get_relayer_runway", "relayers/{id}/runway", "Forecast how long a balance lasts", Runway, _DAYS
)
_FIRST = _number("first", "How many relayers to return, 1 to 1000. Default: 20.", 20, most=1000)
LIST_RUNWAYS = _reading(
    "list_runways", "runways", "List what runs out first", FirstRunways, _FIRST, *FILTERS["relayers"], _DAYS
)
APPLY = _changing(
    "apply",
    "POST",
    "apply",
    "Make the records match a document",
    records.ApplyReport,
    records.ApplyRequest,
    conditional=True,
)
EXPORT = _reading(
    "export",
    "export",
    "Write the records as an apply file",
    records.ExportedFile,
    Parameter(
        "resource",
        "Only records of this kind.",
        choices=dict.fromkeys(["networks", "signers", "notifications", "relayers"], ""),
        example="networks",
    ),
    Parameter("record", "Only the record with this id, or this name of a network.", example="sepolia"),
)
LIST_TOKENS = _listing("tokens", "list_tokens", "List tokens", records.Token)
CREATE_TOKEN = _action(
    "create_token", "tokens", "Issue a token", records.NewToken, records.TokenRequest, status=201, permission="own"
)
ROTATE_TOKEN = _action(
    "rotate_token",
    "tokens/{id}/rotate",
    "Give a token a new secret",
    records.RotatedToken,
    records.RotationRequest,
    permission="own",
)
REVOKE_TOKEN = Operation("revoke_token", "DELETE", "tokens/{id}", "Revoke a token", permission="own")
LIST_EVENTS = _listing("events", "list_events", "List events", EventBody, is_paged=False)
GET_EVENT = _reading("get_event", "events/{id}", "Read an event", EventBody)
LIST_DELIVERIES = _listing("deliveries", "list_deliveries", "List deliveries", records.Delivery, is_paged=False)
GET_DELIVERY = _reading(
    "get_delivery", "deliveries/{id}", "Read a delivery with every attempt", records.DeliveryWithAttempts
)
REPLAY_DELIVERY = _action(
    "replay_delivery", "deliveries/{id}/replay", "Send a delivery again", records.DeliveryWithAttempts
)
REPLAY_DEAD = _action(
    "replay_dead",
    "deliveries/replay",
    "Send every dead delivery again",
    records.Replayed,
    query=tuple(each for each in FILTERS["deliveries"] if each.name in ("notification_id", "relayer_id")),
)
LIST_AUDIT = _listing("audit", "list_audit", "List changes", records.AuditEntry)
GET_AUDIT_HEAD = _reading(
    "get_audit_head",
    "audit/head",
    "Read the head of the audit log",
    records.AuditHead,
    command="audit head",
    details="Keep it elsewhere to detect later that entries were removed.",
)
_HEAD = Parameter(
    "head",
    "An earlier head, which the log must contain.",
    example="7:" + "c0ffee00" * 8,
    schema={"pattern": "^[0-9]{1,18}:[0-9a-f]{64}$"},
)
VERIFY_AUDIT = _reading("verify_audit", "audit/verify", "Verify every link of the audit log", AuditVerification, _HEAD)
WHOAMI = _reading(
    "whoami", "whoami", "Show who you are, your role, and when your access ends", records.WhoAmI, permission="list"
)
_TEXT = Parameter(
    "text",
    "The beginning of an id, a name or an address, the end of an address, or any part of one of the 20,000 newest"
    " records of a kind. Blanks around it do not count.",
    example="sepolia",
)
FIND = _reading(
    "find",
    "find",
    "Find records by part of an id, a name or an address",
    records.Found,
    _TEXT,
    _number("first", "How many to return, 1 to 100. Default: 20.", 20, most=100),
    is_list=True,
)
LIST_PROBLEMS = _reading(
    "list_problems",
    "problems",
    "List current problems, by cause",
    records.FleetProblem,
    is_list=True,
    command="problem list",
    details="Acknowledged problems come last.",
)
ACKNOWLEDGE_PROBLEM = _action(
    "acknowledge_problem",
    "problems/{id}/acknowledge",
    "Acknowledge a problem for a while",
    records.FleetProblem,
    records.AcknowledgementRequest,
)
REOPEN_PROBLEM = _action(
    "reopen_problem",
    "problems/{id}/reopen",
    "Take back an acknowledgement",
    records.FleetProblem,
    command="problem reopen",
)
LIST_PROTECTIONS = _listing("protections", "list_protections", "List protections", records.Protection)
CREATE_PROTECTION = _action(
    "create_protection",
    "protections",
    "Protect records",
    records.Protection,
    records.ProtectionRequest,
    status=201,
    permission="own",
)
DELETE_PROTECTION = _changing(
    "delete_protection",
    "DELETE",
    "protections/{id}",
    "End a protection",
    permission="own",
    details="Somebody else has to approve this, too.",
)
LIST_PROPOSALS = _listing("proposals", "list_proposals", "List proposed changes", records.Proposal)
GET_PROPOSAL = _reading("get_proposal", "proposals/{id}", "Read a proposed change", records.Proposal)
APPROVE_PROPOSAL = _action(
    "approve_proposal",
    "proposals/{id}/approve",
    "Approve a change and make it",
    records.Proposal,
    permission="approve",
    details="Neither its author can, nor a token that the author made.",
)
REJECT_PROPOSAL = _action(
    "reject_proposal",
    "proposals/{id}/reject",
    "Reject a change",
    records.Proposal,
    records.ProposalDecision,
    permission="approve",
)
WITHDRAW_PROPOSAL = _action(
    "withdraw_proposal",
    "proposals/{id}/withdraw",
    "Withdraw a change that you proposed",
    records.Proposal,
    details="Only its author can.",
)
FORCE_PROPOSAL = _action(
    "force_proposal",
    "proposals/{id}/force",
    "Make a change without an approval",
    records.Proposal,
    records.ProposalDecision,
    permission="own",
    details="The audit log and an event say so.",
)
RUN_DOCTOR = _reading("run_doctor", "doctor", "Check the service and what it depends on", Finding, is_list=True)

# Those above, in the order in which they are declared.
OPERATIONS: tuple[Operation, ...] = tuple(
    each
    for declared in tuple(vars().values())
    for each in (declared if isinstance(declared, tuple) else (declared,))
    if isinstance(each, Operation)
)
BY_NAME = {each.name: each for each in OPERATIONS}

# Those that keep to the scope of their credential, or to the proposals that it made. One that is about the whole
# service is refused to a scoped one.
WHOLE_SERVICE = "the credential is limited to a scope, and this is about the whole service"
SCOPED = frozenset(
    each.name
    for each in (
        *(*NETWORKS, *SIGNERS, *NOTIFICATIONS, *RELAYERS),
        *(CHECK_SIGNER, LIST_SIGNER_DRIVERS, TEST_NOTIFICATION, SEND_WAITING),
        *(PAUSE_RELAYER, RESUME_RELAYER, EXPLAIN_RELAYER, EXPLAIN_ESTIMATE),
        *(GET_RELAYER_BALANCES, GET_RELAYER_RUNWAY, LIST_RUNWAYS),
        *(WHOAMI, FIND, APPLY, EXPORT, LIST_AUDIT, LIST_EVENTS, GET_EVENT),
        *(LIST_PROBLEMS, ACKNOWLEDGE_PROBLEM, REOPEN_PROBLEM),
        *(LIST_DELIVERIES, GET_DELIVERY, REPLAY_DELIVERY, REPLAY_DEAD),
        *(GET_PROPOSAL, WITHDRAW_PROPOSAL),
    )
)
