"""How the text of a setting becomes its value. Each function raises ValueError with what it expects."""

import json
import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

from relaydeck.identifiers import identifier_problem
from relaydeck.secret import Secret
from relaydeck.web_addresses import web_address_problem

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")
_INVISIBLE = re.compile(r"[\x00-\x20\x7f-\x9f]")
_HOST = r"(\[[0-9A-Fa-f:.]+\]|[^:\[\],]*)(:[0-9]{1,5})?"
_HOSTS = re.compile(rf"{_HOST}(,{_HOST})*")
SIGNER_TYPES = (
    "plain",
    "provider_a_kms",
    "provider_b_kms",
    "provider_c",
    "provider_c_transit",
    "provider_d",
    "provider_e",
)
AddressRange = IPv4Network | IPv6Network
MOST_NAMED_RELAYERS = 1000
_LIMITS_SCHEMES = ("redis", "rediss", "valkey", "valkeys")
_LIMITS_OPTIONS = {"db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}
_DRIVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LARGEST = 1_000_000_000  # a billion times this fits the 64 bits of a cell in the rate limit table


def _integer(least: int, most: int, kind: str = "a whole number") -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or len(text) > 15 or not least <= int(text) <= most:
            raise ValueError(f"{kind} from {least} to {most}")
        return int(text)

    return read


count, count_or_zero, port = _integer(1, _LARGEST), _integer(0, _LARGEST), _integer(1, 65_535, "a port")


def seconds(text: str) -> float:
    if not 0 < (value := _number(text)) <= 86_400:
        raise ValueError("a number of seconds above 0, at most 86400")
    return value


def _number(text: str) -> float:
    """-1 stands for what is not a number."""
    try:
        return float(text)
    except ValueError:
        return -1.0


def seconds_or_zero(text: str) -> float:
    try:
        return 0.0 if text == "0" else seconds(text)
    except ValueError as expected:
        raise ValueError(f"0, or {expected}") from None


def percentile(text: str) -> float:
    if not 0 <= (value := _number(text)) <= 100:
        raise ValueError("a number from 0 to 100")
    return value


def path(text: str) -> Path:
    if not text:
        raise ValueError("a path")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError("a path whose ~user exists") from None


def limits_url(text: str) -> Secret:
    """A secret, because it may contain a password."""
    if not _is_limits_url(text):
        raise ValueError(
            "redis://HOST:PORT/NUMBER (or rediss, valkey, valkeys) or unix:///PATH, USER:PASSWORD@ before the host; "
            "options: db, ssl_ca_certs, ssl_certfile, ssl_keyfile"
        )
    return Secret(text)


def _is_limits_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        server, _, options = parts.hostname, parts.port, parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        return False
    number = "".join(options.get("db", ["0"]))
    if not options.keys() <= _LIMITS_OPTIONS or parts.fragment or not (number.isascii() and number.isdigit()):
        return False
    if parts.scheme == "unix":
        return not server and len(parts.path) > 1
    database = parts.path.removeprefix("/") or "0"
    return parts.scheme in _LIMITS_SCHEMES and bool(server) and database.isascii() and database.isdigit()


def address_ranges(text: str) -> tuple[AddressRange, ...]:
    try:
        return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError:
        raise ValueError("addresses such as 10.0.0.5 or CIDR ranges such as 10.0.0.0/8, separated by commas") from None


def host(text: str) -> str:
    address = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if not address or not address.isprintable() or set(address) & set(" []"):
        raise ValueError("an address or a host name")
    return address


def listen_address(text: str) -> tuple[str, int]:
    address, _, number = text.rpartition(":")
    try:
        return host(address), port(number)
    except ValueError:
        raise ValueError("HOST:PORT") from None


def one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(" or ".join(choices))
        return text

    return read


def driver_name(text: str) -> str | None:
    """Nothing binds no driver."""
    if not text:
        return None
    if not _DRIVER_NAME.fullmatch(text):
        raise ValueError("the name of a driver, such as aws-kms, or nothing")
    return text


def web_address(text: str) -> str:
    if web_address_problem(text):
        raise ValueError("an absolute http(s) URL")
    return text


def collector(text: str) -> str:
    if web_address_problem(text) or urlsplit(text).username is not None or urlsplit(text).query:
        raise ValueError("an absolute http(s) URL without user, password and query")
    return text


def identifiers(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if len(found) > MOST_NAMED_RELAYERS or any(identifier_problem(each) for each in found):
        raise ValueError(f"identifiers separated by commas, at most {MOST_NAMED_RELAYERS}")
    return found


_IN_FILES = ("role_id", "secret_id", "service_account")


class KeySource(NamedTuple):
    """A key of a key system, as a signer of its driver names it. What is secret is in files."""

    driver: str
    endpoint: str | None
    fields: dict[str, Any]  # texts, or {"file": path}


def key_source(text: str) -> KeySource | None:
    """From JSON, as the environment has it; the settings file has a table. Nothing is no source."""
    if not text:
        return None
    expected = 'an object with a driver and what names its key; role_id, secret_id and service_account are {"file": …}'
    try:
        found = json.loads(text)
        driver, endpoint = driver_name(found.pop("driver")), found.pop("endpoint", None)
        paths = [each["file"] for name, each in found.items() if name in _IN_FILES or isinstance(each, dict)]
        texts = [each for each in found.values() if not isinstance(each, dict)]
        if driver is None or not all(isinstance(each, str) for each in paths + texts):
            raise ValueError
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise ValueError(expected) from None
    return KeySource(driver, None if endpoint is None else web_address(endpoint), found)


class DatabaseUrl(Secret):
    """Where the data is stored: a checked URL, perhaps with a password. Printing it shows server and database name."""

    def __init__(self, value: str) -> None:
        if not (value.startswith(_SQLITE) and value != _SQLITE) and not _is_postgres(value):
            raise ValueError(
                "sqlite:///path (three slashes for a relative path, four for an absolute one)"
                " or postgresql://user:password@host:port/name (with @ : / ? # of the password percent-encoded)"
            )
        super().__init__(value)

    @property
    def sqlite_path(self) -> Path | None:
        """The file of an SQLite database; None for any other database."""
        return Path(self.reveal().removeprefix(_SQLITE)) if self.reveal().startswith(_SQLITE) else None

    def __str__(self) -> str:
        if self.sqlite_path is not None:
            return self.reveal()
        parts = urlsplit(self.reveal())
        hosts = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "")
        return f"postgresql://{hosts}/{unquote(parts.path.removeprefix('/'))}"

    def __repr__(self) -> str:
        return f"DatabaseUrl({self})"

    def __format__(self, spec: str) -> str:
        return str(self)


def _is_postgres(value: str) -> bool:
    """Strict: otherwise part of a password with an unencoded `@ : / ? #` would pass for a host and appear in errors."""
    if not value.startswith(_POSTGRES) or value in _POSTGRES or _INVISIBLE.search(value):
        return False
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    user, _, hosts = parts.netloc.rpartition("@")
    elsewhere = parts.path + parts.query
    return not parts.fragment and "@" not in user + elsewhere and bool(_HOSTS.fullmatch(hosts))
