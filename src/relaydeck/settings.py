"""Every setting, once: its name, type, default and meaning. `docs/settings.md` is printed from here.

A field `rate_limit_burst` is read from the environment variable `RELAYDECK_RATE_LIMIT_BURST`.
"""

import difflib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from relaydeck.database_url import DatabaseUrl
from relaydeck.errors import OperatorError
from relaydeck.secret import Secret

PREFIX = "RELAYDECK_"
AddressRange = IPv4Network | IPv6Network
_LIMITS_SCHEMES = ("redis", "rediss", "valkey", "valkeys")
_LIMITS_OPTIONS = {"db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}
_LARGEST = 1_000_000_000  # times a billion it still fits the 64 bits of a rate limit's cell


def _count(text: str) -> int:
    return _whole_number(text, at_least=1)


def _count_or_zero(text: str) -> int:
    return _whole_number(text, at_least=0)


def _whole_number(text: str, at_least: int) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 15 or not at_least <= int(text) <= _LARGEST:
        raise ValueError(f"a whole number from {at_least} to {_LARGEST}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 86_400:
        raise ValueError("a number of seconds above 0, at most 86400")
    return value


def _seconds_or_zero(text: str) -> float:
    return 0.0 if text == "0" else _seconds(text)


def _percentile(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise ValueError("a number from 0 to 100")
    return value


def _path(text: str) -> Path:
    if not text:
        raise ValueError("a path")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError("a path whose ~user exists") from None


def _limits_url(text: str) -> Secret:
    """A secret, because it may hold a password."""
    if not _is_limits_url(text):
        raise ValueError(
            "redis://HOST:PORT/NUMBER (or rediss, valkey, valkeys) or unix:///PATH, USER:PASSWORD@ before the host; "
            "options: db, ssl_ca_certs, ssl_certfile, ssl_keyfile"
        )
    return Secret(text)


def _is_limits_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        host, _, options = parts.hostname, parts.port, parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        return False
    number = "".join(options.get("db", ["0"]))
    if not options.keys() <= _LIMITS_OPTIONS or parts.fragment or not (number.isascii() and number.isdigit()):
        return False
    if parts.scheme == "unix":
        return not host and len(parts.path) > 1
    path = parts.path.removeprefix("/") or "0"
    return parts.scheme in _LIMITS_SCHEMES and bool(host) and path.isascii() and path.isdigit()


def _address_ranges(text: str) -> tuple[AddressRange, ...]:
    try:
        return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError:
        raise ValueError("addresses or CIDR ranges separated by commas") from None


def _listen_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65_536:
        raise ValueError("HOST:PORT")
    return host.strip("[]"), int(port)


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(" or ".join(choices))
        return text

    return read


def _setting(read: Callable[[str], Any], default: Any, meaning: str, shown: str = "") -> Any:
    return field(default=default, metadata={"read": read, "meaning": meaning, "shown": shown})


@dataclass(frozen=True, kw_only=True)
class Settings:
    home: Path = _setting(
        _path, Path(".relaydeck"), "Folder that holds all state: an SQLite database and the master key file."
    )
    database_url: DatabaseUrl | None = _setting(
        DatabaseUrl,
        None,
        "Where the data lives: `sqlite:///path`, or `postgresql://user:password@host:port/name`.",
        "sqlite:///<home>/relaydeck.db",
    )
    master_key_file: Path | None = _setting(
        _path, None, "File with the master key that seals every secret at rest.", "<home>/master.key"
    )
    bootstrap_token_file: Path | None = _setting(
        _path,
        None,
        "File with an access token of your own making (32 to 256 characters of `A-Z a-z 0-9 - . _ ~ + / =`). "
        "`serve` accepts it under the name `bootstrap`; a changed file replaces it at the next start.",
        "none",
    )
    bootstrap_token_kind: str = _setting(
        _one_of("api", "readonly", "admin"),
        "api",
        "What the bootstrap token may do: `api`, `readonly` or `admin`.",
    )
    stale_seconds: float = _setting(
        _seconds,
        300.0,
        "How long lists are answered from memory, with their age, while a PostgreSQL database is away.",
    )
    rate_limit_per_second: int = _setting(
        _count_or_zero,
        100,
        "Requests a second that one credential may make to list-relayers and the JSON-RPC call together. 0: no limit.",
    )
    rate_limit_burst: int = _setting(
        _count, 300, "Requests that one credential may make at once before that rate applies."
    )
    limits_url: Secret | None = _setting(
        _limits_url,
        None,
        "Valkey or Redis server that keeps the rate limits of several replicas: "
        "`redis://`, `rediss://`, `valkey://`, `valkeys://` or `unix://`. Each replica must be given the same limits.",
        "none: each machine limits by itself",
    )
    limits_password_file: Path | None = _setting(
        _path, None, "File with the password of that server, instead of one in its URL.", "none"
    )
    limits_timeout_seconds: float = _setting(
        _seconds, 0.1, "How long that server may take before the machine limits by itself until it answers again."
    )
    max_per_page: int = _setting(_count, 1000, "Largest page a list gives; a larger `per_page` is reduced to it.")
    max_body_bytes: int = _setting(_count, 1_048_576, "Largest request body that is read.")
    body_timeout_seconds: float = _setting(
        _seconds, 10.0, "How long a client may take to send its request body before it is refused."
    )
    header_timeout_seconds: float = _setting(
        _seconds,
        10.0,
        "How long a client may take to send its request headers before its connection is closed.",
    )
    stop_timeout_seconds: float = _setting(
        _seconds, 30.0, "How long requests in flight may take to finish once the service is told to stop."
    )
    signer_config: str = _setting(
        _one_of("shown", "non_secret"),
        "shown",
        "Which config fields a signer answers with: `shown` (address, key_name, mount_point, namespace) or "
        "`non_secret` (every field that is no secret).",
    )
    rpc_deadline_seconds: float = _setting(
        _seconds, 5.0, "How long a fee estimate may wait for nodes in all, over every URL it is tried on."
    )
    rpc_try_timeout_seconds: float = _setting(
        _seconds, 2.0, "How long one node may take before the next one is asked too."
    )
    rpc_probe_seconds: float = _setting(_seconds, 30.0, "Longest pause before a node that failed is tried again.")
    rpc_connections: int = _setting(_count, 64, "Most connections to one node, kept alive between estimates.")
    monitor_interval_seconds: float = _setting(
        _seconds_or_zero,
        60.0,
        "How often each relayer's nonce and balance are read from its nodes. 0: never, and none is disabled.",
    )
    monitor_rounds: int = _setting(
        _count, 3, "How many rounds in a row no node of a relayer may answer before the relayer is disabled."
    )
    lease_seconds: float = _setting(
        _seconds,
        30.0,
        "How long work that others could do (delivering events, watching relayers) stays with a process that died. On "
        "PostgreSQL `RELAYDECK_WEBHOOK_TIMEOUT_SECONDS` is added for events.",
    )
    rpc_guard: str = _setting(
        _one_of("off", "on"),
        "off",
        "`on`: nodes are asked only at public addresses and those of `RELAYDECK_RPC_ALLOW`. `off`: at any, since nodes "
        "are often private.",
    )
    rpc_allow: tuple[AddressRange, ...] = _setting(
        _address_ranges,
        (),
        "Addresses or CIDR ranges, comma-separated, that nodes may be asked at although they are not public.",
        "none",
    )
    priority_fee_percentile: float = _setting(
        _percentile,
        50.0,
        "Which tip of a block counts for `eip1559_pricing`: its percentile, weighted by gas.",
    )
    priority_fee_blocks: int = _setting(
        _count, 10, "How many of the latest blocks the median of those tips is taken over."
    )
    webhook_allow: tuple[AddressRange, ...] = _setting(
        _address_ranges,
        (),
        "Addresses or CIDR ranges, comma-separated, that events may be sent to although they are not public.",
        "none",
    )
    webhook_timeout_seconds: float = _setting(
        _seconds, 15.0, "How long one try to deliver an event may take, from the name look-up to the answer's status."
    )
    event_retention_days: int = _setting(
        _count, 30, "How many days events are kept, with the tries to deliver them, once nothing is left to do."
    )
    trusted_proxies: tuple[AddressRange, ...] = _setting(
        _address_ranges,
        (),
        "Proxies (addresses or CIDR ranges, comma-separated) whose `X-Forwarded-For` tells the client's address.",
        "none",
    )
    operations_address: tuple[str, int] | None = _setting(
        _listen_address,
        None,
        "HOST:PORT that answers `/healthz`, `/readyz`, `/metrics`, `/openapi.json` and `/docs` instead of the "
        "service's own port.",
        "the service's own port",
    )
    log_format: str = _setting(
        _one_of("auto", "json", "text"), "auto", "`json`, `text`, or `auto`: text on a terminal, else json."
    )
    log_level: str = _setting(
        _one_of("debug", "info", "warning", "error"),
        "info",
        "Least level that is logged; requests are `info`.",
    )

    @property
    def database(self) -> Path | DatabaseUrl:
        """The file of an SQLite database, or the address of a server."""
        if self.database_url is None:
            return self.home / "relaydeck.db"
        return self.database_url.sqlite_path or self.database_url

    @property
    def master_key_path(self) -> Path:
        return self.master_key_file or self.home / "master.key"

    @property
    def rpc_allowed(self) -> tuple[AddressRange, ...] | None:
        """Where nodes may be asked beside public addresses; None when anywhere."""
        return self.rpc_allow if self.rpc_guard == "on" else None

    @property
    def run_folder(self) -> Path:
        """Shared between the processes of one machine; holds nothing that must survive them."""
        return self.home / "run"


def variable(setting: "Field[Any]") -> str:
    return PREFIX + setting.name.upper()


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of this environment; every bad value is named at once."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for setting in fields(Settings):
        text = environment.get(variable(setting))
        if text is None:
            continue
        try:
            values[setting.name] = setting.metadata["read"](text)
        except ValueError as expected:
            problems.append(f"{variable(setting)} must be {expected}")
    if problems:
        raise OperatorError("; ".join(problems), "Correct the environment and start again.")
    return Settings(**values)


def unknown_names(environment: Iterable[str] = os.environ) -> list[str]:
    """A warning for each RELAYDECK_* name that is no setting, with the nearest one that is."""
    known = [variable(setting) for setting in fields(Settings)]
    warnings = []
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in known:
            nearest = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            warnings.append(f"{name} is not a setting and is ignored{hint}")
    return warnings


def settings_page() -> str:
    """`docs/settings.md`."""
    rows = [
        f"| `{variable(s)}` | {s.metadata['shown'] or f'`{_default(s)}`'} | {s.metadata['meaning']} |"
        for s in fields(Settings)
    ]
    return "\n".join(
        [
            "# Settings",
            "",
            "Every setting is an environment variable, read once at the start. A bad value stops the start with a",
            "message that names it; an unknown `RELAYDECK_*` name is reported with the nearest known one and ignored.",
            "",
            "This page is printed from `src/relaydeck/settings.py` by `make docs`; a test keeps it current.",
            "",
            "| variable | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _default(setting: "Field[Any]") -> str:
    value = setting.default
    return f"{value:g}" if isinstance(value, float) else str(value)
