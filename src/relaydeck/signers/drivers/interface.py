"""The interface between a driver and the rest of Relaydeck.

A package adds a driver by an entry point in the group `relaydeck.drivers`. Its value is a class (or a function) that
takes a DriverContext and gives a Driver:

    [project.entry-points."relaydeck.drivers"]
    my-hsm = "my_package:MyHsmDriver"

A driver only fetches. `keys.SignerKeys` applies the deadline and the concurrency bound, and verifies each signature
against the key, so that a driver cannot leave that out.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm

from relaydeck.signers.drivers.driver_errors import AnswerRejected, DriverError
from relaydeck.signers.signer_types import Config

T = TypeVar("T")

ConfigT_contra = TypeVar("ConfigT_contra", bound=Config, contravariant=True)


class KeyIdentity(NamedTuple):
    """Which key a signer has. A system that does not reveal public keys gives the address alone."""

    address: str  # with its EIP-55 checksum
    public_key: bytes | None = None  # 64 bytes: x and y


class RawSignature(NamedTuple):
    """A signature as a key system gives it: not yet verified, with either of the two valid values of s."""

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


@runtime_checkable
class WrapsKeys(Protocol):
    """A driver whose key system can also wrap the master key."""

    wrapping_config: ClassVar[type[Config]]

    async def wrap_key(self, config: Any, key: bytes) -> str:
        """One line, from which the key system alone makes the key again. Raises DriverError."""

    async def unwrap_key(self, config: Any, wrapped: str) -> bytes: ...

    async def close(self) -> None: ...


@contextmanager
def failing_as(error: DriverError) -> Iterator[None]:
    """Raises the error in place of any about a value that cannot be read, which may quote the value."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, RecursionError, UnsupportedAlgorithm, msgspec.MsgspecError):
        raise error from None


class HttpAnswer(NamedTuple):
    """`status` is neither 429 nor 5xx: those are raised as errors."""

    status: int
    body: bytes

    def get(self, path: str, kind: type[T]) -> T:
        """The part at a path such as `auth.client_token`. Raises AnswerRejected unless there is one of this kind."""
        with failing_as(AnswerRejected("the key system's answer does not have the documented form")):
            found = msgspec.json.decode(self.body)
            for name in path.split("."):
                found = found.get(name)
            if isinstance(found, kind):
                return found
            raise TypeError

    def find(self, path: str, default: T) -> T:
        """The same, or the default, of the same kind. An answer may have any form: proxies send their own errors."""
        try:
            return self.get(path, type(default))
        except AnswerRejected:
            return default


class HttpClient(Protocol):
    """HTTP to a key system: TLS verified, past the address guard, bounded in size, never redirected."""

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> HttpAnswer:
        """`url` is sent as it is spelt. Raises KeySystemUnreachable and Throttled."""


@dataclass(frozen=True)
class DriverContext:
    client: HttpClient  # for `endpoint`, which may be private; without one it is `guarded_client`
    endpoint: str | None  # the override for this signer type
    clock: Callable[[], float]  # seconds since the epoch
    guarded_client: HttpClient  # for addresses that a signer's config names: public and allowed, unless set locally
