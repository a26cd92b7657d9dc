"""What a driver provides and what it is given.

A package adds a driver by an entry point in the group `relaydeck.drivers`. Its value is a class (or a function) that
takes a DriverContext and gives a Driver:

    [project.entry-points."relaydeck.drivers"]
    my-hsm = "my_package:MyHsmDriver"

A driver only fetches. `keys.SignerKeys` applies the deadline and the concurrency bound, normalises each signature,
and verifies it against the key before anybody sees it, so that a driver cannot leave that out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeVar

import msgspec

from relaydeck.setting_values import AddressRange
from relaydeck.signers.drivers.driver_errors import AnswerRejected
from relaydeck.signers.signer_types import Config

if TYPE_CHECKING:
    from relaydeck.outgoing_connections import Resolve

T = TypeVar("T")

ConfigT_contra = TypeVar("ConfigT_contra", bound=Config, contravariant=True)


class KeyIdentity(NamedTuple):
    """Which key a signer has. A system that does not reveal public keys gives the address alone."""

    address: str  # with its EIP-55 checksum
    public_key: bytes | None = None  # 64 bytes: x and y


class RawSignature(NamedTuple):
    """A signature as a key system gives it: not yet normalised, not yet verified."""

    r: int
    s: int


class Driver(Protocol[ConfigT_contra]):
    config_type: ClassVar[type[Config]]  # the config that it reads; a binding to another signer type is refused

    async def identify(self, config: ConfigT_contra) -> KeyIdentity:
        """Ask the key system for the key. Raises DriverError."""

    async def sign_digest(self, config: ConfigT_contra, digest: bytes) -> RawSignature:
        """Sign 32 bytes that are already a hash. Raises DriverError."""

    async def close(self) -> None:
        """Forget every credential and close what is open."""


class HttpAnswer(NamedTuple):
    """`status` is neither 429 nor 5xx: those are raised as errors."""

    status: int
    body: bytes

    def decode(self, shape: type[T]) -> T:
        try:
            return msgspec.json.decode(self.body, type=shape)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            raise AnswerRejected("the key system's answer does not have the documented form") from None

    def error(self, shape: type[T]) -> T | None:
        """What an error answer says, when it has that form: proxies answer errors of their own."""
        try:
            return self.decode(shape)
        except AnswerRejected:
            return None


class HttpClient(Protocol):
    """HTTP to a key system: TLS verified, past the address guard, bounded in size, never redirected."""

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> HttpAnswer:
        """`url` is sent as it is spelt. Raises KeySystemUnreachable and Throttled."""


@dataclass(frozen=True)
class DriverOptions:
    """Times are seconds."""

    deadline: float = 10.0  # for one proof, from the moment that it gets its turn
    concurrency: int = 16  # proofs under way at once, for each signer type
    ca_file: Path | None = None  # further certificate authorities to trust
    allow: Sequence[AddressRange] = ()  # where addresses of a signer's config may lead, besides public ones
    endpoints: Mapping[str, str] = field(default_factory=dict)  # by signer type, instead of the driver's own
    resolve: "Resolve | None" = None  # None: the system's resolver


@dataclass(frozen=True)
class DriverContext:
    client: HttpClient  # for `endpoint`, which may be private; without one it is `guarded_client`
    endpoint: str | None  # the override for this signer type
    clock: Callable[[], float]  # seconds since the epoch
    guarded_client: HttpClient  # for addresses that a signer's config names: public and allowed, unless set locally
