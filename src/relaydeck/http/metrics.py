"""Every metric, declared once. `metric_counts` counts them and writes the text of `/metrics`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from relaydeck.errors import WRITE_CAUSES, request_errors

PREFIX = "relaydeck_"
OTHER = "other"  # counts every value of a label that is not declared
BUCKETS_NS = tuple(
    round(milliseconds * 1e6)
    for milliseconds in (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)
)
ROUTES = (
    *("create_signer", "list_signers", "update_notification", "list_relayers", "relayer_rpc"),
    *("operations", "admin", "console", "unmatched", OTHER),
)
STORING_ROUTES = ("create_signer", "update_notification", "admin")
ESTIMATE_OUTCOMES = ("ok", "refused", "failed")
STATUSES = (*map(str, sorted({200, 201, 303, 503} | {error.status for error in request_errors()})), OTHER)


@dataclass(frozen=True, eq=False)  # compared and hashed by identity
class Metric:
    type: Literal["counter", "gauge", "histogram"]
    name: str  # without the prefix
    help: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # each with its values
    looked_up: bool = False  # looked up by each scrape instead of counted
    by: tuple[str, ...] = ()  # labels with values that are not declared, before the others
    combined: Literal["sum", "max", "oldest"] = "sum"  # of all processes; oldest: the least one that is not 0


counter, gauge, histogram = (partial(Metric, kind) for kind in ("counter", "gauge", "histogram"))
looked_up_counter, looked_up_gauge = partial(counter, looked_up=True), partial(gauge, looked_up=True)
host_counter, host_gauge = partial(looked_up_counter, by=("host",)), partial(looked_up_gauge, by=("host",))

REQUESTS = counter(
    "requests_total",
    "Requests answered, by route and status. A combination appears with its first request.",
    {"route": ROUTES, "status": STATUSES},
)
REQUEST_SECONDS = histogram(
    "request_seconds", "Seconds from the arrival of a request to its response, by route.", {"route": ROUTES}
)
SCRAPES = counter("scrapes_total", "Times that somebody has read the metrics.")
LOG_LINES_DROPPED = counter(
    "log_lines_dropped_total",
    "Log lines dropped because the reader of standard error was too slow or its disk was full.",
)
CONNECTIONS_CLOSED = counter(
    "connections_closed_total", "Silent or unread connections closed to keep room for other clients."
)
STORED_BYTES = counter(
    "stored_bytes_total",
    "Bytes of the request bodies that were stored, by route. Which token sent them: see `relaydeck_created_bytes`.",
    {"route": STORING_ROUTES},
)
UNEXPECTED_FAILURES = counter(
    "unexpected_failures_total", "Requests that failed with an error the service does not expect."
)
HISTORY_CHANGES = counter(
    "history_changes_total",
    "Times a worker found that the database had failed over or been rolled back, and loaded it again.",
)
ISSUER_READS = counter(
    "issuer_reads_total",
    "Times a worker read the keys of an issuer of JSON Web Tokens, or failed to.",
    {"outcome": ("ok", "failed")},
)
FORGED_TOKENS = counter("forged_tokens_total", "Times a worker refused a token row that Relaydeck did not write.")
DAMAGED_VALUES = counter("damaged_values_total", "Times a sealed value could not be opened.")
LIMITS_FALLBACKS = counter(
    "limits_fallbacks_total",
    "Times a worker switched to the rate limit of its own machine because the limit server did not answer.",
)
EVENT_TRIES = counter(
    "event_tries_total",
    "Attempts to deliver an event, by outcome. failed: another attempt follows; dead: it was the last one.",
    {"outcome": ("delivered", "failed", "dead")},
)
SIGNER_CHECKS = counter(
    "signer_checks_total",
    "Scheduled checks of signers, by result. failed: the key was not reached, or a relayer has another address.",
    {"result": ("ok", "failed")},
)
ESTIMATES = counter(
    "estimates_total",
    "Fee estimates, by outcome. refused: the request or the transaction is at fault; failed: a node, a rate or the "
    "service is.",
    {"outcome": ESTIMATE_OUTCOMES},
)
ESTIMATE_SECONDS = histogram(
    "estimate_seconds", "Seconds that a fee estimate took, by outcome.", {"outcome": ESTIMATE_OUTCOMES}
)
MONITOR_CHECKS = counter(
    "monitor_checks_total",
    "Checks of relayers, by result. unanswered: no node of the relayer returned its nonce.",
    {"result": ("ok", "unanswered")},
)
MONITOR_ROUND = gauge(
    "monitor_round_timestamp_seconds",
    "When the monitor last completed a round over the relayers that it checks here, in Unix time: of the process that "
    "is furthest behind. 0 where it checks none, and before the first round.",
    combined="oldest",
)
MONITOR_SHARDS = gauge(
    "monitor_shards",
    "Shards of the relayers that are checked here. Over all replicas they add up to 64, or to 0 without relayers.",
)
MONITOR_LAG = gauge(
    "monitor_lag_seconds",
    "How late the monitor checks relayers: since when the first one is due, or how much longer than the interval a "
    "check takes.",
    combined="max",
)
READ_MODEL_AGE = gauge(
    "read_model_age_seconds",
    "Seconds since the oldest read model of a worker was known to be current. Always 0 with SQLite.",
    combined="max",
)
WORKER_RESTARTS = counter(
    "worker_restarts_total",
    "Workers that died and were replaced, by what they died of. memory: the kernel killed it because its cgroup or the "
    "machine had no memory left.",
    {"reason": ("exit", "signal", "memory")},
)
WORKERS = gauge("workers", "Processes of the service that are running.")
RESIDENT_BYTES = gauge("resident_bytes", "Memory that all workers hold, in bytes.")
LOADING = gauge(
    "loading_records",
    "Records that workers have yet to load into memory after their start. Their memory grows until it is 0.",
)
MASTER_KEY_AWAY = gauge(
    "master_key_away",
    "Workers that have the master key in memory and could not read it again: a start would fail now.",
)
OPEN_FILES = gauge("open_files", "Open files and connections of all workers.")
LIMITS_ALONE = gauge(
    "limits_alone", "Workers that use the rate limit of their own machine because the limit server is away."
)
STORE_AWAY = gauge(
    "store_away", "Workers without a database connection: they serve lists from memory and refuse writes."
)
READY = looked_up_gauge("ready", "1 while `/readyz` returns 200 here, otherwise 0.")
DISK_FREE = looked_up_gauge(
    "disk_free_bytes",
    "Free space of the file system that holds the home folder, or of the one with the SQLite file if that has less.",
)
LAST_BACKUP = looked_up_gauge(
    "last_backup_timestamp_seconds",
    "When `relaydeck backup` last completed with this home folder, in Unix time; 0 before the first time.",
)
DATABASE_CONNECTIONS = looked_up_gauge(
    "database_connections",
    "Client connections that count against the nearest limit of PostgreSQL, whoever opened them. Absent with SQLite.",
)
DATABASE_CONNECTIONS_LIMIT = looked_up_gauge(
    "database_connections_limit",
    "The nearest limit on them: that of the server, of the database or of the role. Absent with SQLite.",
)
DATABASE_CLOCK_AHEAD = looked_up_gauge(
    "database_clock_ahead_seconds",
    "How far the clock of PostgreSQL is ahead of the clock of this machine; negative if it is behind. "
    "Absent with SQLite.",
)
MIGRATING = looked_up_gauge(
    "migrating",
    "1 while a process migrates the database in PostgreSQL, or opens it, so that other starts wait. "
    "Absent with SQLite, where no other process serves meanwhile.",
)
WRITES_OK = looked_up_gauge(
    "writes_ok",
    "1 while every worker can write to the database, 0 while one of them cannot. A worker that no client makes write "
    "tries a write every few seconds.",
)
WRITES_LAST_SUCCESS = looked_up_gauge(
    "writes_last_success_seconds", "Seconds since a write last succeeded, of the worker where that is longest ago."
)
WRITES_FAILED = counter(
    "writes_failed_total",
    "Writes that the database did not accept, by cause: transactions, with those that workers try by themselves.",
    {"cause": tuple(WRITE_CAUSES)},
)
EVENTS = looked_up_counter("events_total", "Events recorded since the database was created.")
DELIVERIES_PENDING = looked_up_gauge("deliveries_pending", "Deliveries that are not finished, counted up to 10000.")
DELIVERIES_DEAD = looked_up_gauge("deliveries_dead", "Deliveries given up and not yet removed, counted up to 10000.")
OLDEST_PENDING_DELIVERY = looked_up_gauge(
    "oldest_pending_delivery_seconds", "Age of the oldest delivery that is not finished."
)

SIGNERS_CHECKED = looked_up_gauge("signers_checked", "Signers that were checked at least once.")
SIGNERS_FAILING = looked_up_gauge("signers_failing", "Signers that failed their latest check.")
OLDEST_SIGNER_CHECK = looked_up_gauge(
    "oldest_signer_check_seconds", "Age of the latest check of the signer checked longest ago."
)
RELAYERS = looked_up_gauge(
    "relayers",
    "Relayers, by network and state, each counted up to 100000. total: all of them; low_balance: below `min_balance`; "
    "low_runway: a warning is in force. The first 100 networks.",
    {"state": ("total", "paused", "disabled", "low_balance", "low_runway")},
    by=("network",),
)
_KINDS = {"kind": ("networks", "signers", "notifications", "relayers", "tokens")}
RECORDS = looked_up_gauge("records", "Stored records, by kind, each counted up to 100000.", _KINDS)
RECORD_BYTES = looked_up_gauge(
    "record_bytes", "Bytes of the stored records, by kind, of at most 100000 of each.", _KINDS
)
_CREATED = {"kind": (*_KINDS["kind"], "sessions")}
_CREATORS = "The fifty combinations with most bytes, of at most 100000 changes."
CREATED_RECORDS = looked_up_gauge(
    "created_records",
    f"Records that a token, or someone with a command, created in the last day, by kind. {_CREATORS}",
    _CREATED,
    by=("actor",),
)
CREATED_BYTES = looked_up_gauge("created_bytes", f"Bytes of these records. {_CREATORS}", _CREATED, by=("actor",))
LOWEST_RUNWAY = looked_up_gauge(
    "lowest_runway_seconds",
    "Seconds until the first relayer of a network is expected to reach `min_balance`, among the 1000 that run out "
    "first.",
    by=("network",),
)
_NAMED = ("network", "relayer")
RELAYER_BALANCE = looked_up_gauge(
    "relayer_balance_wei",
    "The balance of each relayer that `RELAYDECK_METRICS_RELAYERS` names, when it was last checked.",
    by=_NAMED,
)
RELAYER_RUNWAY = looked_up_gauge(
    "relayer_runway_seconds",
    "Seconds until such a relayer is expected to reach `min_balance`. Absent while the runway is unknown.",
    by=_NAMED,
)
RELAYER_STATE = looked_up_gauge(
    "relayer_state",
    "1 for each state that such a relayer is in, 0 for the others.",
    {"state": ("paused", "disabled", "low_balance", "low_runway")},
    by=_NAMED,
)

_HOSTS = "The first 100 hosts in use."
NODE_UP = host_gauge(
    "node_up", f"Whether at least one URL on this host answers on the right chain, in any worker. {_HOSTS}"
)
NODE_LAG = host_gauge(
    "node_lag_blocks",
    f"Blocks behind the newest that most nodes of its network have, of the URL on this host that is furthest behind. "
    f"Absent until one that answers is compared. {_HOSTS}",
)
NODE_LATENCY = host_gauge(
    "node_latency_seconds",
    f"Average time of recent answers of the slowest URL on this host, of its slowest kind of question. "
    f"Absent before the first answer. {_HOSTS}",
)
NODE_ERRORS = host_counter(
    "node_errors_total",
    "Calls and probes of all URLs on this host that failed, and answers that were not believed, of running workers. "
    f"{_HOSTS}",
)
NODE_OUTVOTED = host_counter(
    "node_outvoted_total",
    f"Times that a URL on this host answered differently from most nodes of its network, of running workers. {_HOSTS}",
)
NODE_DISAGREEMENTS = looked_up_counter(
    "node_disagreements_total",
    "Times that nodes of one network answered the same question differently, in running workers.",
)

METRICS = tuple(each for each in tuple(globals().values()) if isinstance(each, Metric))  # as declared above

LabelValues = tuple[str, ...]
# Of each metric a value, or one for each combination of label values; a histogram has its buckets, one above them, and
# the sum.
Figures = Mapping[Metric, int | Mapping[LabelValues, int | str | list[int]]]
