"""The keys of signers, reached through the bound drivers.

Nothing here signs what a caller chose: the one thing that is signed is a challenge that is made here.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from relaydeck.errors import OperatorError, described
from relaydeck.outgoing.connections import Resolve
from relaydeck.settings.model import Settings
from relaydeck.signers.drivers.challenge import new_challenge
from relaydeck.signers.drivers.curve import require_signed
from relaydeck.signers.drivers.driver_errors import DriverError, KeySystemUnreachable, NotBound
from relaydeck.signers.drivers.http_client import KeySystemClient, trusted_authorities
from relaydeck.signers.drivers.interface import Driver, DriverContext, KeyIdentity
from relaydeck.signers.drivers.registry import MakeDriver, load_driver
from relaydeck.signers.signer_types import SHAPES, Config

T = TypeVar("T")


class _Binding(NamedTuple):
    name: str
    driver: Driver[Any]
    turns: asyncio.Semaphore


class SignerKeys:
    """One per event loop. A driver is loaded when a signer of its type is first used, in a thread.

    Signers that were set by a command on the server's machine, which may have private addresses, share no connection
    and no access token with those that were set over HTTP.
    """

    def __init__(
        self, settings: Settings, *, clock: Callable[[], float] = time.time, resolve: Resolve | None = None
    ) -> None:
        self.bindings = settings.drivers.bindings  # the driver of each signer type that has one
        self.bound_types = frozenset(self.bindings)
        self._settings, self._clock, self._resolve = settings, clock, resolve
        self._clients: dict[bool, KeySystemClient] = {}
        self._bound: dict[tuple[str, bool], _Binding] = {}
        self._turns: dict[str, asyncio.Semaphore] = {}  # by signer type
        self._loading = asyncio.Lock()

    async def load(self, signer_type: str, *, set_locally: bool = False) -> None:
        """Load the driver, so that what follows takes as long as the key system does. Raises NotBound."""
        await self._binding(signer_type, set_locally)

    async def identify(self, signer_type: str, config: Config, *, set_locally: bool = False) -> KeyIdentity:
        """Which key the signer has, without signing anything. Raises DriverError."""
        binding = await self._binding(signer_type, set_locally)
        return await self._in_turn(binding, lambda: binding.driver.identify(config))

    async def prove(self, signer_type: str, config: Config, *, set_locally: bool = False) -> KeyIdentity:
        """Have the key sign a new challenge, and verify the signature. Raises DriverError."""
        binding = await self._binding(signer_type, set_locally)
        return await self._in_turn(binding, lambda: _prove(binding.driver, config))

    async def close(self) -> None:
        bound, self._bound = list(self._bound.values()), {}
        for binding in bound:
            await binding.driver.close()
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.close()

    async def _in_turn(self, binding: _Binding, work: Callable[[], Awaitable[T]]) -> T:
        async with binding.turns:
            return await within(self._settings.driver_deadline_seconds, binding.name, work())

    async def _binding(self, signer_type: str, set_locally: bool) -> _Binding:
        which = signer_type, set_locally
        if which not in self._bound:
            async with self._loading:
                if which not in self._bound:  # another check may have come first
                    self._bound[which] = await self._bind(signer_type, set_locally)
        return self._bound[which]

    async def _bind(self, signer_type: str, set_locally: bool) -> _Binding:
        name = self.bindings.get(signer_type)
        if name is None:
            raise NotBound(f"no driver is bound to this type: set RELAYDECK_DRIVER_{signer_type.upper()}")
        try:
            make = await asyncio.to_thread(self._load, name)
            driver = make(self._context(signer_type, set_locally))
            _require_suitable(driver, name, signer_type)
        except OperatorError as error:
            raise NotBound(f"{error.problem}. {error.remedy}") from None
        except DriverError as error:
            raise NotBound(str(error)) from None
        except Exception as error:  # a driver may be another team's; its text may quote a secret
            raise NotBound(f"the driver {name!r} cannot be started: {described(error)}") from None
        turns = self._turns.setdefault(signer_type, asyncio.Semaphore(self._settings.driver_concurrency))
        return _Binding(name, driver, turns)

    def _load(self, name: str) -> MakeDriver:
        """Whatever would hold the event loop for longer than the requests that it serves may wait."""
        trusted_authorities(self._settings.driver_ca_file)
        return load_driver(name)

    def _context(self, signer_type: str, set_locally: bool) -> DriverContext:
        endpoint = self._settings.drivers.endpoints.get(signer_type)
        client = self._client(private=set_locally or endpoint is not None)
        return DriverContext(client, endpoint, self._clock, self._client(private=set_locally))

    def _client(self, *, private: bool) -> KeySystemClient:
        if private not in self._clients:
            self._clients[private] = KeySystemClient(self._settings, self._resolve, private=private)
        return self._clients[private]


async def within(deadline: float, driver: str, work: Awaitable[T]) -> T:
    """What a driver answers. Whatever fails is a DriverError."""
    try:
        async with asyncio.timeout(deadline):
            return await work
    except TimeoutError:
        raise KeySystemUnreachable(f"the key system did not answer within {deadline:g} seconds") from None
    except DriverError:
        raise
    except Exception as error:  # a driver may be another team's; its text may quote a secret
        raise KeySystemUnreachable(f"the driver {driver!r} failed with {described(error)}") from None


def _require_suitable(driver: Driver[Any], name: str, signer_type: str) -> None:
    if driver.config_type is not SHAPES[signer_type]:
        raise OperatorError(
            f"the driver {name!r} cannot be bound to signers of the type {signer_type!r}",
            f"Correct RELAYDECK_DRIVER_{signer_type.upper()}; docs/signers.md lists which driver suits which type.",
        )


async def _prove(driver: Driver[Any], config: Config) -> KeyIdentity:
    identity, challenge = await driver.identify(config), new_challenge()
    require_signed(challenge, await driver.sign_digest(config, challenge), identity)
    return identity
