"""The keys of signers for a process that may never need them: their code is loaded by the first use."""

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from relaydeck.settings import Settings

if TYPE_CHECKING:
    from relaydeck.signers.drivers.keys import SignerKeys

_KEYS = "relaydeck.signers.drivers.keys"


class KeyAccess:
    """One per event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._keys: SignerKeys | None = None

    @property
    def bindings(self) -> Mapping[str, str]:
        """The driver of each bound signer type."""
        return self._settings.driver_bindings

    @property
    def bound_types(self) -> frozenset[str]:
        return frozenset(self._settings.driver_bindings)

    async def keys(self) -> "SignerKeys":
        if self._keys is None:
            # In a thread: the event loop has requests to serve.
            module = await asyncio.to_thread(import_module, _KEYS)
            if self._keys is None:
                self._keys = module.open_keys(self._settings)
        return self._keys

    async def close(self) -> None:
        if self._keys is not None:
            await self._keys.close()
