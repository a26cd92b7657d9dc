"""Every setting: its name, type, default and meaning. `make docs` writes `docs/reference/settings.md` from here.

The environment variable `RELAYDECK_RATE_LIMIT_BURST` sets the field `rate_limit_burst`; so does the line
`rate_limit_burst = 300` in the file that `RELAYDECK_CONFIG` names, if the environment does not set it.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

from relaydeck.errors import OperatorError
from relaydeck.roles import ROLE_NAMES, describe_roles
from relaydeck.secret import Secret
from relaydeck.settings import values
from relaydeck.settings.file import nearest_name, read_settings_file
from relaydeck.settings.issuers import Issuer, issuers
from relaydeck.settings.values import SIGNER_TYPES, AddressRange, DatabaseUrl, KeySource

PREFIX = "RELAYDECK_"
SETTINGS_FILE = "RELAYDECK_CONFIG"
# Read by commands that call a server, or from which settings are read: no settings themselves.
OTHER_VARIABLES = (SETTINGS_FILE, "RELAYDECK_URL", "RELAYDECK_TOKEN", "RELAYDECK_READONLY_TOKEN", "RELAYDECK_PROFILE")


def _setting(
    default: Any,
    meaning: str,
    shown: str = "",
    *,
    reader: Callable[[str], Any] | None = None,
    variable: str = "",
    may_hold_password: bool = False,
) -> Any:
    """`reader`: how its text is read, if its type alone does not say that."""
    shown = shown or ("none" if default in (None, ()) else "")
    metadata = {"meaning": meaning, "shown": shown, "reader": reader, "variable": variable}
    return field(default=default, metadata=metadata | {"may_hold_password": may_hold_password})


class Drivers(NamedTuple):
    bindings: dict[str, str]  # the driver of each signer type that has one
    endpoints: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Settings:
    home: Path = _setting(Path(".relaydeck"), "Folder for all state: the SQLite database and the master key file.")
    host: str = _setting("127.0.0.1", "Address that the service listens on. `--host` overrides it.", reader=values.host)
    port: int = _setting(8080, "Port that the service listens on. `--port` overrides it.", reader=values.port)
    database_url: DatabaseUrl | None = _setting(
        None,
        "The database: `sqlite:///path` or `postgresql://user:password@host:port/name`.",
        "sqlite:///<home>/relaydeck.db",
        reader=DatabaseUrl,
        may_hold_password=True,
    )
    master_key_file: Path | None = _setting(
        None, "File with the master key that encrypts every stored secret.", "<home>/master.key"
    )
    master_key_from: KeySource | None = _setting(
        None,
        "Key of a key system that wraps the master key, so that its file alone opens nothing, in JSON. In the file: "
        "[a table](#master-key).",
        reader=values.key_source,
    )
    bootstrap_token_file: Path | None = _setting(
        None,
        "File with an access token that you provide (32 to 256 characters of `A-Z a-z 0-9 - . _ ~ + / =`). `relaydeck "
        "serve` accepts it under the name `bootstrap`. If the file changes, the next start replaces it.",
    )
    bootstrap_token_kind: str = _setting(
        "api", f"Kind of the bootstrap token: {describe_roles('`')}.", reader=values.one_of(*ROLE_NAMES)
    )
    stale_seconds: float = _setting(
        300.0, "How long the service serves lists from memory, marked with their age, while PostgreSQL is unreachable."
    )
    rate_limit_per_second: int = _setting(
        100,
        "Requests per second that one credential may make to list-relayers and the JSON-RPC call together. 0: no "
        "limit.",
        reader=values.count_or_zero,
    )
    rate_limit_burst: int = _setting(300, "Requests that one credential may make at once before the rate applies.")
    limits_url: Secret | None = _setting(
        None,
        "Valkey or Redis server that holds the rate limits of several replicas: `redis://`, `rediss://`, `valkey://`, "
        "`valkeys://` or `unix://`. Configure the same limits on every replica. For a server with TLS and a "
        "certificate of your own authority, add `?ssl_ca_certs=/path/ca.pem`; for a client certificate, "
        "`ssl_certfile` and `ssl_keyfile`.",
        "none: each machine applies the limit by itself",
        reader=values.limits_url,
        may_hold_password=True,
    )
    limits_password_file: Path | None = _setting(
        None,
        "File with the password of the limit server, if its URL does not contain it. If the service uses a limit "
        "server and cannot read the file, it does not start. Without a limit server it only warns: nothing needs the "
        "file.",
    )
    limits_timeout_seconds: float = _setting(
        0.1,
        "How long the limit server may take to respond. After that, the machine applies the limit by itself until the "
        "server responds again.",
    )
    max_per_page: int = _setting(1000, "Largest page of a list. A larger `per_page` is reduced to it.")
    max_body_bytes: int = _setting(1_048_576, "Largest request body that is accepted.")
    apply_max_body_bytes: int = _setting(
        33_554_432, "Largest body of `POST /admin/v1/apply`; ten thousand relayers take 2 MB."
    )
    header_timeout_seconds: float = _setting(
        10.0, "How long a client may take to send the headers of a request before the service closes the connection."
    )
    stop_timeout_seconds: float = _setting(30.0, "How long running requests may take to finish when the service stops.")
    signer_config: Literal["shown", "non_secret"] = _setting(
        "shown",
        "Which config fields of a signer `/api/v1` returns: `shown` (address, key_name, mount_point, namespace) or "
        "`non_secret` (every field that is not secret).",
    )
    signer_check_seconds: float = _setting(
        3600.0,
        "How often the service checks that each signer with a driver reaches its key. 0: only on request.",
        reader=values.seconds_or_zero,
    )
    drivers: Drivers = _setting(
        Drivers({"plain": "local"}, {}),
        "Driver for the keys of each signer type, such as `aws-kms` for `provider_a_kms`; nothing binds no driver. "
        "`…_ENDPOINT` is the URL of its key system, where the signer or the driver does not say it. In the file: [a "
        "table](#drivers).",
        "`local` for `plain`",
        reader=str,
        variable="RELAYDECK_DRIVER_<TYPE>",
    )
    issuers: tuple[Issuer, ...] = _setting(
        (),
        "Issuers of JSON Web Tokens that are credentials of workloads, and providers where people sign in, in JSON. In "
        "the file: [tables](#issuers).",
        reader=issuers,
    )
    driver_ca_file: Path | None = _setting(
        None,
        "File with certificate authorities, in PEM, to trust for key systems besides the public ones. If a driver is "
        "bound (`local` is by default) and the file is missing or contains no certificates, the service does not "
        "start, because every check of a signer would fail. Without any driver it only warns: nothing needs the file.",
    )
    driver_allow: tuple[AddressRange, ...] = _setting(
        (),
        "Addresses or CIDR ranges, separated by commas, where the key systems and token endpoints of signers that "
        "were set over HTTP may be although they are not public. Signers that a command on the machine set, and a "
        "`RELAYDECK_DRIVER_…_ENDPOINT`, need no entry. Link-local and metadata addresses are always refused.",
    )
    driver_deadline_seconds: float = _setting(
        10.0, "How long a key system may take for one check, not counting the wait for a free slot."
    )
    rpc_deadline_seconds: float = _setting(
        5.0, "How long a fee estimate may wait for nodes in total, over all RPC URLs."
    )
    rpc_try_timeout_seconds: float = _setting(
        2.0, "How long one node may take before the service queries the next one."
    )
    monitor_interval_seconds: float = _setting(
        60.0,
        "How often the monitor reads the nonce and the balance of each relayer from its nodes. 0 turns the monitor "
        "off.",
        reader=values.seconds_or_zero,
    )
    monitor_rounds: int = _setting(
        3, "After how many consecutive rounds without a response from any of its nodes a relayer is disabled."
    )
    balance_days: int = _setting(
        90,
        "For how many days the balance history of a relayer keeps one balance an hour. It keeps one a minute for a "
        "day and one in ten minutes for a week.",
    )
    runway_warn_hours: int = _setting(
        24,
        "The monitor warns below this many hours of runway, unless the relayer or its network sets "
        "`runway_warn_hours`. 0: never.",
        reader=values.count_or_zero,
    )
    rpc_guard: Literal["http", "off", "on"] = _setting(
        "http",
        "`http`: URLs of nodes that are set over HTTP must not have private or loopback addresses, or names of "
        "private networks, unless `RELAYDECK_RPC_ALLOW` allows them; those set by commands on the machine may. A URL "
        "that was set over HTTP is connected to only if its addresses are public or in `RELAYDECK_RPC_ALLOW`. `on`: "
        "no connection is made to a node at an address that is neither public nor in `RELAYDECK_RPC_ALLOW`, whoever "
        "set its URL. `off`: every URL may be set. Link-local and metadata addresses are always refused.",
    )
    rpc_allow: tuple[AddressRange, ...] = _setting(
        (),
        "Addresses or CIDR ranges, separated by commas, where nodes may be although they are not public. If the list "
        "is not empty, every name of a private network (`.internal`, `.local`, …) may be set over HTTP, too: "
        "Relaydeck does not resolve it at that time. `localhost` and other names of the machine need `127.0.0.1` or "
        "`::1` in the list.",
    )
    webhook_allow: tuple[AddressRange, ...] = _setting(
        (), "Addresses or CIDR ranges, separated by commas, where events may be sent although they are not public."
    )
    event_audit_head: Literal["off", "on"] = _setting(
        "off",
        "`on`: each delivery has the header `relaydeck-audit-head` with the head of the audit log, for receivers to "
        "keep. With it, `relaydeck audit verify --head` reports entries that were removed from the end of the log.",
    )
    event_retention_days: int = _setting(30, "How many days a finished event is kept, with its delivery attempts.")
    trusted_proxies: tuple[AddressRange, ...] = _setting(
        (),
        "Proxies (addresses or CIDR ranges, separated by commas) from which `X-Forwarded-For` is accepted as the "
        "address of the client.",
    )
    core: Literal["on", "off"] = _setting(
        "off",
        "`on` serves the five operations of `/api/v1`, `/healthz`, `/readyz` and `/writez`, and nothing else: no "
        "admin API, console, metrics or documentation, and no monitor, deliveries of events or checks of signers. "
        "`--core` does the same.",
    )
    console: Literal["on", "off"] = _setting(
        "on", "`off` removes the console: nothing is served at `/console` and at `/`."
    )
    console_idle_seconds: float = _setting(
        3600.0, "A console session ends after this many seconds without a request from its operator."
    )
    console_session_seconds: float = _setting(43_200.0, "How long a session of the console lasts at most.")
    operations_address: tuple[str, int] | None = _setting(
        None,
        "HOST:PORT for `/healthz`, `/readyz`, `/writez`, `/metrics`, `/openapi.json` and `/docs`, instead of the port "
        "of the service.",
        "the port of the service",
        reader=values.listen_address,
    )
    metrics_relayers: tuple[str, ...] = _setting(
        (),
        "Relayers, by id and separated by commas, that have metrics of their own: balance, runway and state. At most "
        f"{values.MOST_NAMED_RELAYERS}. The start warns of ids that no relayer has: one may be created later.",
        reader=values.identifiers,
    )
    otel_endpoint: str | None = _setting(
        None,
        "URL of an OpenTelemetry collector that receives traces over OTLP/HTTP, such as `http://127.0.0.1:4318`. "
        "Needs the extra `otel` (`pip install 'relaydeck[otel]'`, or `'.[otel]'` in the clone); without it the service "
        "does not start. The "
        "variables `OTEL_*` of OpenTelemetry set headers, sampling and more.",
        "none: no traces",
        reader=values.collector,
    )
    log_format: Literal["auto", "json", "text"] = _setting(
        "auto", "`json`, `text`, or `auto`: text on a terminal, JSON otherwise."
    )
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "Lowest level that is logged. Requests are logged at `info`."
    )

    # Constants. They were settings once, and `OLD_NAMES` still set them.
    body_timeout_seconds: float = 10.0  # for a client to send a body
    write_timeout_seconds: float = 30.0  # for a client to read something of its response
    driver_concurrency: int = 16  # checks of one signer type at the same time
    rpc_probe_seconds: float = 30.0  # the longest pause before a failed node is tried again
    rpc_connections: int = 64  # to one node
    priority_fee_percentile: float = 50.0  # of the priority fees in a block, weighted by gas
    priority_fee_blocks: int = 10  # over which the median of these is taken
    balance_minute_days: int = 1  # for which the history keeps one balance a minute
    balance_ten_minute_days: int = 7
    lease_seconds: float = 30.0  # until the work of a process that died is taken over
    webhook_timeout_seconds: float = 15.0  # of one attempt, from resolving the name to the status of the response
    console_streams: int = 256  # that one worker keeps open

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
    def run_folder(self) -> Path:
        """Shared by the processes of one machine; nothing in it must survive them."""
        return self.home / "run"

    @property
    def data_folders(self) -> list[Path]:
        """Those that exist of the folders that hold what this machine stores."""
        beside = self.database.parent if isinstance(self.database, Path) else self.home
        return [each for each in (self.home, beside) if each.is_dir()]

    @property
    def last_backup_path(self) -> Path:
        """An empty file, last modified by the latest `relaydeck backup`."""
        return self.home / "last-backup"

    def served_mark(self, process: int) -> Path:
        """Contains the URL of the service with this process id, while it runs."""
        return self.run_folder / f"served-{process}"

    def stop_mark(self, process: int) -> Path:
        """Exists while the service with this process id stops, so that its workers end responses without an end."""
        return self.run_folder / f"stopping-{process}"


SETTINGS = tuple(each for each in fields(Settings) if each.metadata)


def variable(setting: "Field[Any]") -> str:
    return setting.metadata["variable"] or PREFIX + setting.name.upper()


def _reader(setting: "Field[Any]") -> Callable[[str], Any]:
    given: Callable[[str], Any] | None = setting.metadata["reader"]
    if given is not None:
        return given
    return values.one_of(*get_args(setting.type)) if get_origin(setting.type) is Literal else _BY_TYPE[setting.type]


_BY_TYPE: dict[Any, Callable[[str], Any]] = {
    Path: values.path,
    Path | None: values.path,
    int: values.count,
    float: values.seconds,
    tuple[AddressRange, ...]: values.address_ranges,
}
# Old names still work, in the environment and in a file; the log says which version ignores them. Those that were not
# renamed are constants now.
REMOVED_IN = "0.3.0"
_RENAMED = {"balance_hour_days": "balance_days"}
OLD_NAMES: dict[str, Callable[[str], Any]] = {
    "balance_hour_days": values.count,
    **{each.name: _BY_TYPE[each.type] for each in fields(Settings) if not each.metadata},
    "priority_fee_percentile": values.percentile,
}
# How each text is read: settings, parts of `drivers`, and old names.
_DRIVER_PARTS = {
    **{f"driver_{each}": values.driver_name for each in SIGNER_TYPES},
    **{f"driver_{each}_endpoint": values.web_address for each in SIGNER_TYPES if each != "plain"},
}
_READERS: dict[str, Callable[[str], Any]] = {
    **{each.name: _reader(each) for each in SETTINGS if each.name != "drivers"},
    **_DRIVER_PARTS,
    **OLD_NAMES,
}
_VARIABLES = {PREFIX + name.upper(): name for name in _READERS}


class _Given(NamedTuple):
    text: str
    place: str
    """How a message names the setting: as its author wrote it."""


def read_settings(environment: Mapping[str, str] = os.environ, **options: Any) -> Settings:
    """The settings in an environment and the file it names, except those that `options` set: these are values.

    Raises OperatorError, which names every bad value.
    """
    in_file, problems = _given_in_file(environment.get(SETTINGS_FILE, ""))
    given = in_file | _given_in(environment)
    found: dict[str, Any] = {}
    for name, value_of in _READERS.items():
        if name in given and name not in options:
            try:
                found[name] = value_of(given[name].text)
            except ValueError as expected:
                problems.append(f"{given[name].place} must be {expected}")
    if problems:
        raise OperatorError("; ".join(problems), "Correct the settings and start again.")
    for old, new in _RENAMED.items():
        if old in found:
            found.setdefault(new, found[old])
            del found[old]
    parts = {name: found.pop(name) for name in _DRIVER_PARTS if name in found}
    return Settings(**{"drivers": _drivers(parts)} | found | options)


def _drivers(parts: dict[str, str | None]) -> Drivers:
    default = Settings.drivers
    bindings = {each: parts.get(f"driver_{each}", default.bindings.get(each)) for each in SIGNER_TYPES}
    endpoints = {each: parts.get(f"driver_{each}_endpoint") for each in SIGNER_TYPES}
    return Drivers(*({each: value for each, value in some.items() if value} for some in (bindings, endpoints)))


def _given_in(environment: Mapping[str, str]) -> dict[str, _Given]:
    given = {name: _Given(environment[place], place) for place, name in _VARIABLES.items() if place in environment}
    if "port" in given and _is_service_link(given["port"].text):
        del given["port"]
    return given


def _given_in_file(path: str) -> tuple[dict[str, _Given], list[str]]:
    if not path:
        return {}, []
    urls = [setting.name for setting in SETTINGS if setting.metadata["may_hold_password"]]
    elsewhere = [each.removeprefix(PREFIX).lower() for each in OTHER_VARIABLES]
    texts, problems = read_settings_file(Path(path), _READERS, urls, elsewhere)
    # `drivers.plain` in the file is `driver_plain` in the environment.
    names = {each: each.replace("drivers.", "driver_").replace(".", "_") for each in texts}
    return {names[each]: _Given(text, f"{each} in {path}") for each, text in texts.items()}, problems


def _is_service_link(text: str) -> bool:
    """Kubernetes sets RELAYDECK_PORT to such a value in every pod beside a service called `relaydeck`."""
    return text.startswith(("tcp://", "udp://"))


def setting_warnings(environment: Mapping[str, str] = os.environ) -> list[str]:
    """What the service ignores in its environment, and which old names are used there and in the file."""
    link = _is_service_link(environment.get("RELAYDECK_PORT", ""))
    ignored = ["RELAYDECK_PORT is a service link of Kubernetes, not a port, and is ignored"] if link else []
    return ignored + unknown_names(environment) + _old_names(environment)


def unknown_names(environment: Iterable[str] = os.environ) -> list[str]:
    """A warning for each RELAYDECK_* name that is not a setting, with the nearest one that is."""
    known = [*OTHER_VARIABLES, *(name for name in _VARIABLES if _VARIABLES[name] not in OLD_NAMES)]
    unknown = [name for name in sorted(environment) if name.startswith(PREFIX) and name not in {*known, *_VARIABLES}]
    return [f"{name} is not a setting and is ignored{nearest_name(name, known, PREFIX)}" for name in unknown]


def _old_names(environment: Mapping[str, str]) -> list[str]:
    in_file, _ = _given_in_file(environment.get(SETTINGS_FILE, ""))
    given = [*_given_in(environment).items(), *in_file.items()]
    tables = [
        f"{each.place} belongs into the table drivers: version {REMOVED_IN} ignores it"
        for name, each in in_file.items()
        if name in _DRIVER_PARTS and each.place.startswith("driver_")
    ]
    return tables + [_old_name_note(name, each.place) for name, each in given if name in OLD_NAMES]


def _old_name_note(name: str, place: str) -> str:
    """`place`: how its author wrote it."""
    if name in _RENAMED:
        new = f"RELAYDECK_{_RENAMED[name].upper()}" if place.startswith("RELAYDECK_") else _RENAMED[name]
        return f"{place} is called {new} now: version {REMOVED_IN} ignores the old name"
    return f"{place} is not a setting any more: it still works, and version {REMOVED_IN} ignores it"
