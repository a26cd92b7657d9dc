"""Every setting: its name, type, default and meaning. `make docs` writes `docs/settings.md` from here.

The environment variable `RELAYDECK_RATE_LIMIT_BURST` sets the field `rate_limit_burst`; so does the line
`rate_limit_burst = 300` in the file that `RELAYDECK_CONFIG` names, if the environment does not set it.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from relaydeck import setting_values as values
from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import OperatorError
from relaydeck.secret import Secret
from relaydeck.setting_values import AddressRange
from relaydeck.settings_file import nearest_name, read_settings_file

PREFIX = "RELAYDECK_"
SETTINGS_FILE = "RELAYDECK_CONFIG"
# Read by commands that call a server, or from which settings are read: no settings themselves.
OTHER_VARIABLES = (SETTINGS_FILE, "RELAYDECK_URL", "RELAYDECK_TOKEN", "RELAYDECK_READONLY_TOKEN", "RELAYDECK_PROFILE")
SIGNER_TYPES = (
    "plain",
    "provider_a_kms",
    "provider_b_kms",
    "provider_c",
    "provider_c_transit",
    "provider_d",
    "provider_e",
)


def _setting(
    value_of: Callable[[str], Any], default: Any, meaning: str, shown: str = "", *, may_hold_password: bool = False
) -> Any:
    metadata = {"value_of": value_of, "meaning": meaning, "shown": shown, "may_hold_password": may_hold_password}
    return field(default=default, metadata=metadata)


def _driver(signer_type: str, suitable: str, default: str | None = None) -> Any:
    meaning = f"Driver for the keys of `{signer_type}` signers, such as `{suitable}`."
    return _setting(values.driver_name, default, meaning, "" if default else "none")


def _endpoint(signer_type: str, own: str = "that of the driver") -> Any:
    return _setting(values.web_address, None, f"URL of the key system of `{signer_type}` signers.", own)


@dataclass(frozen=True, kw_only=True)
class Settings:
    home: Path = _setting(
        values.path, Path(".relaydeck"), "Folder for all state: the SQLite database and the master key file."
    )
    host: str = _setting(values.host, "127.0.0.1", "Address that the service listens on. `--host` overrides it.")
    port: int = _setting(values.port, 8080, "Port that the service listens on. `--port` overrides it.")
    database_url: DatabaseUrl | None = _setting(
        DatabaseUrl,
        None,
        "The database: `sqlite:///path` or `postgresql://user:password@host:port/name`.",
        "sqlite:///<home>/relaydeck.db",
        may_hold_password=True,
    )
    master_key_file: Path | None = _setting(
        values.path, None, "File with the master key that encrypts every stored secret.", "<home>/master.key"
    )
    bootstrap_token_file: Path | None = _setting(
        values.path,
        None,
        "File with an access token that you provide (32 to 256 characters of `A-Z a-z 0-9 - . _ ~ + / =`). "
        "`relaydeck serve` accepts it under the name `bootstrap`. If the file changes, the next start replaces it.",
        "none",
    )
    bootstrap_token_kind: str = _setting(
        values.one_of("api", "readonly", "admin"),
        "api",
        "Kind of the bootstrap token: `api`, `readonly` or `admin`.",
    )
    stale_seconds: float = _setting(
        values.seconds,
        300.0,
        "How long the service serves lists from memory, marked with their age, while PostgreSQL is unreachable.",
    )
    rate_limit_per_second: int = _setting(
        values.count_or_zero,
        100,
        "Requests per second that one credential may make to list-relayers and the JSON-RPC call together. 0: "
        "no limit.",
    )
    rate_limit_burst: int = _setting(
        values.count, 300, "Requests that one credential may make at once before the rate applies."
    )
    limits_url: Secret | None = _setting(
        values.limits_url,
        None,
        "Valkey or Redis server that holds the rate limits of several replicas: "
        "`redis://`, `rediss://`, `valkey://`, `valkeys://` or `unix://`. Configure the same limits on every replica.",
        "none: each machine applies the limit by itself",
        may_hold_password=True,
    )
    limits_password_file: Path | None = _setting(
        values.path,
        None,
        "File with the password of the limit server, if its URL does not contain it. If the service uses a limit "
        "server and cannot read the file, it does not start. Without a limit server it only warns: nothing needs the "
        "file.",
        "none",
    )
    limits_timeout_seconds: float = _setting(
        values.seconds,
        0.1,
        "How long the limit server may take to respond. After that, the machine applies the limit by itself until the "
        "server responds again.",
    )
    max_per_page: int = _setting(values.count, 1000, "Largest page of a list. A larger `per_page` is reduced to it.")
    max_body_bytes: int = _setting(values.count, 1_048_576, "Largest request body that is accepted.")
    apply_max_body_bytes: int = _setting(
        values.count, 33_554_432, "Largest body of `POST /admin/v1/apply`; ten thousand relayers take 2 MB."
    )
    body_timeout_seconds: float = _setting(
        values.seconds, 10.0, "How long a client may take to send the body of a request before the service refuses it."
    )
    header_timeout_seconds: float = _setting(
        values.seconds,
        10.0,
        "How long a client may take to send the headers of a request before the service closes the connection.",
    )
    write_timeout_seconds: float = _setting(
        values.seconds,
        30.0,
        "How long a client may leave a response unread before the service closes the connection.",
    )
    stop_timeout_seconds: float = _setting(
        values.seconds, 30.0, "How long running requests may take to finish when the service stops."
    )
    signer_config: str = _setting(
        values.one_of("shown", "non_secret"),
        "shown",
        "Which config fields of a signer `/api/v1` returns: `shown` (address, key_name, mount_point, namespace) or "
        "`non_secret` (every field that is not secret).",
    )
    signer_check_seconds: float = _setting(
        values.seconds_or_zero,
        3600.0,
        "How often the service checks that each signer with a driver reaches its key. 0: only on request.",
    )
    driver_plain: str | None = _driver("plain", "local", default="local")
    driver_provider_a_kms: str | None = _driver("provider_a_kms", "aws-kms")
    driver_provider_b_kms: str | None = _driver("provider_b_kms", "google-kms")
    driver_provider_c: str | None = _driver("provider_c", "vault-kv")
    driver_provider_c_transit: str | None = _driver("provider_c_transit", "vault-transit")
    driver_provider_d: str | None = _driver("provider_d", "turnkey")
    driver_provider_e: str | None = _driver("provider_e", "cdp")
    driver_provider_a_kms_endpoint: str | None = _endpoint("provider_a_kms")
    driver_provider_b_kms_endpoint: str | None = _endpoint("provider_b_kms")
    driver_provider_c_endpoint: str | None = _endpoint("provider_c", own="the `address` of the signer")
    driver_provider_c_transit_endpoint: str | None = _endpoint("provider_c_transit", own="the `address` of the signer")
    driver_provider_d_endpoint: str | None = _endpoint("provider_d")
    driver_provider_e_endpoint: str | None = _endpoint("provider_e")
    driver_ca_file: Path | None = _setting(
        values.path,
        None,
        "File with certificate authorities, in PEM, to trust for key systems besides the public ones. If a driver "
        "is bound (`local` is by default) and the file is missing or contains no certificates, the service does not "
        "start, because every check of a signer would fail. Without any driver it only warns: nothing needs the file.",
        "none",
    )
    driver_allow: tuple[AddressRange, ...] = _setting(
        values.address_ranges,
        (),
        "Addresses or CIDR ranges, separated by commas, where the key systems and token endpoints of signers that were "
        "set over HTTP may be although they are not public. Signers that a command on the machine set, and a "
        "`RELAYDECK_DRIVER_…_ENDPOINT`, need no entry. Link-local and metadata addresses are always refused.",
        "none",
    )
    driver_deadline_seconds: float = _setting(
        values.seconds, 10.0, "How long a key system may take for one check, not counting the wait for a free slot."
    )
    driver_concurrency: int = _setting(values.count, 16, "How many checks of one signer type run at the same time.")
    rpc_deadline_seconds: float = _setting(
        values.seconds, 5.0, "How long a fee estimate may wait for nodes in total, over all RPC URLs."
    )
    rpc_try_timeout_seconds: float = _setting(
        values.seconds, 2.0, "How long one node may take before the service queries the next one."
    )
    rpc_probe_seconds: float = _setting(
        values.seconds, 30.0, "Longest pause before the service tries a failed node again."
    )
    rpc_connections: int = _setting(
        values.count, 64, "Largest number of connections to one node. They are kept alive between estimates."
    )
    monitor_interval_seconds: float = _setting(
        values.seconds_or_zero,
        60.0,
        "How often the monitor reads the nonce and the balance of each relayer from its nodes. 0 turns the "
        "monitor off.",
    )
    monitor_rounds: int = _setting(
        values.count,
        3,
        "After how many consecutive rounds without a response from any of its nodes a relayer is disabled.",
    )
    balance_minute_days: int = _setting(
        values.count, 1, "For how many days the balance history of a relayer keeps one balance a minute."
    )
    balance_ten_minute_days: int = _setting(
        values.count, 7, "For how many days the balance history keeps one balance in ten minutes."
    )
    balance_hour_days: int = _setting(
        values.count, 90, "For how many days the balance history keeps one balance an hour. Older ones are removed."
    )
    runway_warn_hours: int = _setting(
        values.count_or_zero,
        24,
        "The monitor warns below this many hours of runway, unless the relayer or its network sets "
        "`runway_warn_hours`. 0: never.",
    )
    lease_seconds: float = _setting(
        values.seconds,
        30.0,
        "How long the work of a process that died (delivering events, monitoring relayers) waits before "
        "another process "
        "takes it over. For events on PostgreSQL, `RELAYDECK_WEBHOOK_TIMEOUT_SECONDS` is added.",
    )
    rpc_guard: str = _setting(
        values.one_of("http", "off", "on"),
        "http",
        "`http`: URLs of nodes that are set over HTTP must not have private or loopback addresses, or names of private "
        "networks, unless `RELAYDECK_RPC_ALLOW` allows them; those set by commands on the machine may. A URL that "
        "was set over HTTP is connected to only if its addresses are public or in `RELAYDECK_RPC_ALLOW`. `on`: "
        "no connection is made to a node at an address that is neither public nor in `RELAYDECK_RPC_ALLOW`, whoever "
        "set its URL. `off`: every URL may be set. Link-local and metadata addresses are always refused.",
    )
    rpc_allow: tuple[AddressRange, ...] = _setting(
        values.address_ranges,
        (),
        "Addresses or CIDR ranges, separated by commas, where nodes may be although they are not public. If the "
        "list is not empty, every name of a private network (`.internal`, `.local`, …) may be set over HTTP, too: "
        "Relaydeck does not resolve it at that time. `localhost` and other names of the machine need `127.0.0.1` or "
        "`::1` in the list.",
        "none",
    )
    priority_fee_percentile: float = _setting(
        values.percentile,
        50.0,
        "Which priority fee of a block `eip1559_pricing` uses: its percentile, weighted by gas.",
    )
    priority_fee_blocks: int = _setting(
        values.count, 10, "Over how many of the latest blocks the median of those priority fees is taken."
    )
    webhook_allow: tuple[AddressRange, ...] = _setting(
        values.address_ranges,
        (),
        "Addresses or CIDR ranges, separated by commas, where events may be sent although they are not public.",
        "none",
    )
    webhook_timeout_seconds: float = _setting(
        values.seconds,
        15.0,
        "How long one attempt to deliver an event may take, from resolving the name to the status of the response.",
    )
    event_audit_head: str = _setting(
        values.one_of("off", "on"),
        "off",
        "`on`: each delivery has the header `relaydeck-audit-head` with the head of the audit log, for receivers to "
        "keep. With it, `relaydeck audit verify --head` reports entries that were removed from the end of the log.",
    )
    event_retention_days: int = _setting(
        values.count, 30, "How many days a finished event is kept, with its delivery attempts."
    )
    trusted_proxies: tuple[AddressRange, ...] = _setting(
        values.address_ranges,
        (),
        "Proxies (addresses or CIDR ranges, separated by commas) from which `X-Forwarded-For` is accepted as "
        "the address "
        "of the client.",
        "none",
    )
    core: str = _setting(
        values.one_of("on", "off"),
        "off",
        "`on` serves the five operations of `/api/v1`, `/healthz` and `/readyz`, and nothing else: no admin API, "
        "console, metrics or documentation, and no monitor, deliveries of events or checks of signers. `--core` does "
        "the same.",
    )
    console: str = _setting(
        values.one_of("on", "off"), "on", "`off` removes the console: nothing is served at `/console` and at `/`."
    )
    console_idle_seconds: float = _setting(
        values.seconds, 3600.0, "A console session ends after this many seconds without a request from its operator."
    )
    console_session_seconds: float = _setting(
        values.seconds, 43_200.0, "How long a session of the console lasts at most."
    )
    console_streams: int = _setting(
        values.count,
        256,
        "How many streams to the console one worker keeps open: live updates of pages, and the progress of checks. A "
        "session has at most 8 of them. Pages beyond these numbers refresh every 15 seconds.",
    )
    operations_address: tuple[str, int] | None = _setting(
        values.listen_address,
        None,
        "HOST:PORT for `/healthz`, `/readyz`, `/metrics`, `/openapi.json` and `/docs`, instead of the port of the "
        "service.",
        "the port of the service",
    )
    metrics_relayers: tuple[str, ...] = _setting(
        values.identifiers,
        (),
        "Relayers, by id and separated by commas, that have metrics of their own: balance, runway and state. At most "
        f"{values.MOST_NAMED_RELAYERS}. The start warns of ids that no relayer has: one may be created later.",
        "none",
    )
    otel_endpoint: str | None = _setting(
        values.collector,
        None,
        "URL of an OpenTelemetry collector that receives traces over OTLP/HTTP, such as `http://127.0.0.1:4318`. Needs "
        "the extra `otel` (`pip install '.[otel]'` in the clone); without it the service "
        "does not start. The variables `OTEL_*` of OpenTelemetry set headers, sampling and more.",
        "none: no traces",
    )
    log_format: str = _setting(
        values.one_of("auto", "json", "text"), "auto", "`json`, `text`, or `auto`: text on a terminal, JSON otherwise."
    )
    log_level: str = _setting(
        values.one_of("debug", "info", "warning", "error"),
        "info",
        "Lowest level that is logged. Requests are logged at `info`.",
    )

    @property
    def database(self) -> Path | DatabaseUrl:
        """The file of an SQLite database, or the URL of a database server."""
        if self.database_url is None:
            return self.home / "relaydeck.db"
        return self.database_url.sqlite_path or self.database_url

    @property
    def master_key_path(self) -> Path:
        return self.master_key_file or self.home / "master.key"

    @property
    def rpc_allowed_over_http(self) -> tuple[AddressRange, ...] | None:
        """Which nodes besides public ones may be set over HTTP; None: any."""
        return None if self.rpc_guard == "off" else self.rpc_allow

    @property
    def driver_bindings(self) -> dict[str, str]:
        """The driver of each signer type that has one."""
        return self._by_signer_type("driver_{}")

    @property
    def driver_endpoints(self) -> dict[str, str]:
        return self._by_signer_type("driver_{}_endpoint")

    def _by_signer_type(self, name: str) -> dict[str, str]:
        found = {each: getattr(self, name.format(each), None) for each in SIGNER_TYPES}
        return {each: value for each, value in found.items() if value is not None}

    @property
    def run_folder(self) -> Path:
        """Shared by the processes of one machine; nothing in it must survive them."""
        return self.home / "run"

    def stop_mark(self, process: int) -> Path:
        """Exists while the service with this process id stops, so that its workers end responses without an end."""
        return self.run_folder / f"stopping-{process}"


def variable(setting: "Field[Any]") -> str:
    return PREFIX + setting.name.upper()


class _Given(NamedTuple):
    text: str
    place: str
    """How a message names the setting: as its author wrote it."""


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings in an environment and the file it names. Raises OperatorError, which names every bad value."""
    in_file, problems = _given_in_file(environment.get(SETTINGS_FILE, ""))
    given = in_file | _given_in(environment)
    found: dict[str, Any] = {}
    for setting in fields(Settings):
        if setting.name in given:
            try:
                found[setting.name] = setting.metadata["value_of"](given[setting.name].text)
            except ValueError as expected:
                problems.append(f"{given[setting.name].place} must be {expected}")
    if problems:
        raise OperatorError("; ".join(problems), "Correct the settings and start again.")
    return Settings(**found)


def _given_in(environment: Mapping[str, str]) -> dict[str, _Given]:
    found = {each.name: (environment.get(variable(each)), variable(each)) for each in fields(Settings)}
    given = {name: _Given(text, place) for name, (text, place) in found.items() if text is not None}
    if "port" in given and _is_service_link(given["port"].text):
        del given["port"]
    return given


def _given_in_file(path: str) -> tuple[dict[str, _Given], list[str]]:
    """The settings in a file, and what is wrong with others in it."""
    if not path:
        return {}, []
    known = [setting.name for setting in fields(Settings)]
    urls = [setting.name for setting in fields(Settings) if setting.metadata["may_hold_password"]]
    elsewhere = [each.removeprefix(PREFIX).lower() for each in OTHER_VARIABLES]
    texts, problems = read_settings_file(Path(path), known, urls, elsewhere)
    return {name: _Given(text, f"{name} in {path}") for name, text in texts.items()}, problems


def _is_service_link(text: str) -> bool:
    """Kubernetes sets RELAYDECK_PORT to such a value in every pod beside a service called `relaydeck`."""
    return text.startswith(("tcp://", "udp://"))


def setting_warnings(environment: Mapping[str, str] = os.environ) -> list[str]:
    """What the service ignores in its environment."""
    link = _is_service_link(environment.get("RELAYDECK_PORT", ""))
    ignored = ["RELAYDECK_PORT is a service link of Kubernetes, not a port, and is ignored"] if link else []
    return ignored + unknown_names(environment)


def unknown_names(environment: Iterable[str] = os.environ) -> list[str]:
    """A warning for each RELAYDECK_* name that is not a setting, with the nearest one that is."""
    known = [*OTHER_VARIABLES, *(variable(setting) for setting in fields(Settings))]
    unknown = [name for name in sorted(environment) if name.startswith(PREFIX) and name not in known]
    return [f"{name} is not a setting and is ignored{nearest_name(name, known, PREFIX)}" for name in unknown]
