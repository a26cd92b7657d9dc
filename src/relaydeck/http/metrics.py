"""Every metric, declared once. `metric_counts` counts them, and `metrics_text` writes the text of `/metrics`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from relaydeck.errors import request_errors

PREFIX = "relaydeck_"
OTHER = "other"  # counts every value of a label that is not declared
BUCKETS_NS = tuple(
    round(milliseconds * 1e6)
    for milliseconds in (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)
)
ROUTES = (
    "create_signer",
    "list_signers",
    "update_notification",
    "list_relayers",
    "relayer_rpc",
    "operations",
    "admin",
    "console",
    "unmatched",
    OTHER,
)
STORING_ROUTES = ("create_signer", "update_notification", "admin")
ESTIMATE_OUTCOMES = ("ok", "refused", "failed")
STATUSES = (*map(str, sorted({200, 201, 303, 503} | {error.status for error in request_errors()})), OTHER)


@dataclass(frozen=True, eq=False)  # compared and hashed by identity
class Metric:
    name: str  # without the prefix
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # each with its values
    looked_up: bool = False  # read from the database by each scrape instead of counted
    by: tuple[str, ...] = ()  # labels with values that are not declared, before the others
    combined: Literal["sum", "max", "oldest"] = "sum"  # of all processes; oldest: the least one that is not 0


REQUESTS = Metric(
    "requests_total",
    "counter",
    "Requests answered, by route and status. A combination appears with its first request.",
    {"route": ROUTES, "status": STATUSES},
)
REQUEST_SECONDS = Metric(
    "request_seconds",
    "histogram",
    "Seconds from the arrival of a request to its response, by route.",
    {"route": ROUTES},
)
LOG_LINES_DROPPED = Metric(
    "log_lines_dropped_total",
    "counter",
    "Log lines dropped because the reader of standard error was too slow or its disk was full.",
)
CONNECTIONS_CLOSED = Metric(
    "connections_closed_total", "counter", "Silent or unread connections closed to keep room for other clients."
)
STORED_BYTES = Metric(
    "stored_bytes_total",
    "counter",
    "Bytes of the request bodies that were stored, by route. Which token sent them: see the log and `doctor`.",
    {"route": STORING_ROUTES},
)
UNEXPECTED_FAILURES = Metric(
    "unexpected_failures_total", "counter", "Requests that failed with an error the service does not expect."
)
HISTORY_CHANGES = Metric(
    "history_changes_total",
    "counter",
    "Times a worker found that the database had failed over or been rolled back, and loaded it again.",
)
FORGED_TOKENS = Metric(
    "forged_tokens_total", "counter", "Times a worker refused a token row that Relaydeck did not write."
)
DAMAGED_VALUES = Metric("damaged_values_total", "counter", "Times a sealed value could not be opened.")
LIMITS_FALLBACKS = Metric(
    "limits_fallbacks_total",
    "counter",
    "Times a worker switched to the rate limit of its own machine because the limit server did not answer.",
)
EVENT_TRIES = Metric(
    "event_tries_total",
    "counter",
    "Attempts to deliver an event, by outcome. failed: another attempt follows; dead: it was the last one.",
    {"outcome": ("delivered", "failed", "dead")},
)
SIGNER_CHECKS = Metric(
    "signer_checks_total",
    "counter",
    "Scheduled checks of signers, by result. failed: the key was not reached, or a relayer has another address.",
    {"result": ("ok", "failed")},
)
ESTIMATES = Metric(
    "estimates_total",
    "counter",
    "Fee estimates, by outcome. refused: the request or the transaction is at fault; failed: a node, a rate or the "
    "service is.",
    {"outcome": ESTIMATE_OUTCOMES},
)
ESTIMATE_SECONDS = Metric(
    "estimate_seconds", "histogram", "Seconds that a fee estimate took, by outcome.", {"outcome": ESTIMATE_OUTCOMES}
)
MONITOR_CHECKS = Metric(
    "monitor_checks_total",
    "counter",
    "Checks of relayers, by result. unanswered: no node of the relayer returned its nonce.",
    {"result": ("ok", "unanswered")},
)
MONITOR_ROUND = Metric(
    "monitor_round_timestamp_seconds",
    "gauge",
    "When the monitor last completed a round over the relayers that it checks here, in Unix time: of the process that "
    "is furthest behind. 0 where it checks none, and before the first round.",
    combined="oldest",
)
MONITOR_SHARDS = Metric(
    "monitor_shards",
    "gauge",
    "Shards of the relayers that are checked here. Over all replicas they add up to 64, or to 0 without relayers.",
)
MONITOR_LAG = Metric(
    "monitor_lag_seconds",
    "gauge",
    "How late the monitor checks relayers: since when the first one is due, or how much longer than the interval a "
    "check takes.",
    combined="max",
)
READ_MODEL_AGE = Metric(
    "read_model_age_seconds",
    "gauge",
    "Seconds since the oldest read model of a worker was known to be current. Always 0 with SQLite.",
    combined="max",
)
WORKERS = Metric("workers", "gauge", "Processes of the service that are running.")
RESIDENT_BYTES = Metric("resident_bytes", "gauge", "Memory that all workers hold, in bytes.")
OPEN_FILES = Metric("open_files", "gauge", "Open files and connections of all workers.")
LIMITS_ALONE = Metric(
    "limits_alone", "gauge", "Workers that use the rate limit of their own machine because the limit server is away."
)
STORE_AWAY = Metric(
    "store_away", "gauge", "Workers without a database connection: they serve lists from memory and refuse writes."
)
EVENTS = Metric("events_total", "counter", "Events recorded since the database was created.", looked_up=True)
DELIVERIES_PENDING = Metric(
    "deliveries_pending", "gauge", "Deliveries that are not finished, counted up to 10000.", looked_up=True
)
DELIVERIES_DEAD = Metric(
    "deliveries_dead", "gauge", "Deliveries given up and not yet removed, counted up to 10000.", looked_up=True
)
OLDEST_PENDING_DELIVERY = Metric(
    "oldest_pending_delivery_seconds", "gauge", "Age of the oldest delivery that is not finished.", looked_up=True
)

SIGNERS_CHECKED = Metric("signers_checked", "gauge", "Signers that were checked at least once.", looked_up=True)
SIGNERS_FAILING = Metric("signers_failing", "gauge", "Signers that failed their latest check.", looked_up=True)
OLDEST_SIGNER_CHECK = Metric(
    "oldest_signer_check_seconds", "gauge", "Age of the latest check of the signer checked longest ago.", looked_up=True
)
RELAYERS = Metric(
    "relayers",
    "gauge",
    "Relayers, by network and state, each counted up to 100000. total: all of them; low_balance: below `min_balance`; "
    "low_runway: a warning is in force. The first 100 networks.",
    {"state": ("total", "paused", "disabled", "low_balance", "low_runway")},
    looked_up=True,
    by=("network",),
)
RECORDS = Metric(
    "records",
    "gauge",
    "Stored records, by kind, each counted up to 100000.",
    {"kind": ("networks", "signers", "notifications", "relayers", "tokens")},
    looked_up=True,
)
LOWEST_RUNWAY = Metric(
    "lowest_runway_seconds",
    "gauge",
    "Seconds until the first relayer of a network is expected to reach `min_balance`, among the 1000 that run out "
    "first.",
    looked_up=True,
    by=("network",),
)
_NAMED = ("network", "relayer")
RELAYER_BALANCE = Metric(
    "relayer_balance_wei",
    "gauge",
    "The balance of each relayer that `RELAYDECK_METRICS_RELAYERS` names, when it was last checked.",
    looked_up=True,
    by=_NAMED,
)
RELAYER_RUNWAY = Metric(
    "relayer_runway_seconds",
    "gauge",
    "Seconds until such a relayer is expected to reach `min_balance`. Absent while the runway is unknown.",
    looked_up=True,
    by=_NAMED,
)
RELAYER_STATE = Metric(
    "relayer_state",
    "gauge",
    "1 for each state that such a relayer is in, 0 for the others.",
    {"state": ("paused", "disabled", "low_balance", "low_runway")},
    looked_up=True,
    by=_NAMED,
)

_HOSTS = "The first 100 hosts in use."
NODE_UP = Metric(
    "node_up",
    "gauge",
    f"Whether at least one URL on this host answers on the right chain, in any worker. {_HOSTS}",
    looked_up=True,
    by=("host",),
)
NODE_LAG = Metric(
    "node_lag_blocks",
    "gauge",
    f"Blocks behind the best node of its network, of the URL on this host that is furthest behind. "
    f"Absent until one that answers is compared. {_HOSTS}",
    looked_up=True,
    by=("host",),
)
NODE_LATENCY = Metric(
    "node_latency_seconds",
    "gauge",
    f"Average time of recent answers of the slowest URL on this host, of its slowest kind of question. "
    f"Absent before the first answer. {_HOSTS}",
    looked_up=True,
    by=("host",),
)
NODE_ERRORS = Metric(
    "node_errors_total",
    "counter",
    "Calls and probes of all URLs on this host that failed, and answers that were not believed, of running workers. "
    f"{_HOSTS}",
    looked_up=True,
    by=("host",),
)
NODE_DISAGREEMENTS = Metric(
    "node_disagreements_total",
    "counter",
    "Times that nodes of one network returned different fee data, in running workers.",
    looked_up=True,
)

METRICS = tuple(each for each in tuple(globals().values()) if isinstance(each, Metric))  # as declared above

LabelValues = tuple[str, ...]
# Of each metric a value, or one for each combination of label values; a histogram has its buckets, one above them, and
# the sum.
Figures = Mapping[Metric, int | Mapping[LabelValues, int | str | list[int]]]
