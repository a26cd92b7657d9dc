"""Wraps the master key with a key of a key system, so that no file on the machine opens the secrets.

`RELAYDECK_MASTER_KEY_FROM` names a driver that can do so and the key, in the fields of a signer of that driver. Those
with credentials name files, which are read each time: they may be replaced while the service runs.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from relaydeck.errors import OperatorError
from relaydeck.secret import decode_secret
from relaydeck.settings.model import Settings
from relaydeck.settings.values import KeySource
from relaydeck.signers.drivers.driver_errors import DriverError, KeySystemUnreachable, Throttled
from relaydeck.signers.drivers.http_client import KeySystemClient
from relaydeck.signers.drivers.interface import DriverContext, WrapsKeys
from relaydeck.signers.drivers.keys import within
from relaydeck.signers.drivers.registry import load_driver
from relaydeck.signers.signer_types import Config

T = TypeVar("T")

_PAUSES = (0.5, 1.0, 2.0, 4.0)  # seconds between the tries of a start
_IMPATIENT_SECONDS = 2.0  # of a running service, whose writes wait meanwhile


class DriverKeySystem:
    def __init__(self, settings: Settings, source: KeySource, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings, self._source, self._sleep = settings, source, sleep

    def wrap(self, key: bytes) -> str:
        return self._ask(lambda driver, config: driver.wrap_key(config, key), patient=True)

    def unwrap(self, wrapped: str, *, patient: bool) -> bytes:
        return self._ask(lambda driver, config: driver.unwrap_key(config, wrapped), patient=patient)

    def _ask(self, work: Callable[[WrapsKeys, Config], Awaitable[T]], *, patient: bool) -> T:
        """In a thread of its own: the one of the caller may have an event loop that runs."""
        pauses = iter(_PAUSES if patient else ())
        with ThreadPoolExecutor(1) as thread:
            while True:
                try:
                    return thread.submit(asyncio.run, self._answer(work, patient=patient)).result()
                except (KeySystemUnreachable, Throttled) as error:
                    if (pause := next(pauses, None)) is None:
                        raise self._failed(error) from None
                    self._sleep(pause)
                except DriverError as error:
                    raise self._failed(error) from None

    async def _answer(self, work: Callable[[WrapsKeys, Config], Awaitable[T]], *, patient: bool) -> T:
        name, deadline = self._source.driver, self._settings.driver_deadline_seconds
        make = load_driver(name)
        client = KeySystemClient(self._settings, private=True)
        driver = make(DriverContext(client, self._source.endpoint, time.time, client))
        try:
            if not isinstance(driver, WrapsKeys):
                raise OperatorError(
                    f"the driver {name!r} cannot wrap the master key",
                    "Correct RELAYDECK_MASTER_KEY_FROM: vault-transit, aws-kms and google-kms can.",
                )
            config = _config(self._source, driver.wrapping_config)
            return await within(deadline if patient else min(deadline, _IMPATIENT_SECONDS), name, work(driver, config))
        finally:
            await driver.close()
            await client.close()

    def _failed(self, error: DriverError) -> OperatorError:
        return OperatorError(
            f"the key system of the master key, {self._source.driver}, fails: {error}",
            "A service that runs has the key in memory and goes on. A start, and each command that opens secrets, needs"
            " the key system: repair it, or RELAYDECK_MASTER_KEY_FROM, and try again.",
        )


def _config(source: KeySource, shape: type[Config]) -> Config:
    whole = msgspec.json.encode(dict(_fields(source)))
    try:
        return msgspec.json.decode(whole, type=shape, dec_hook=decode_secret)
    except msgspec.MsgspecError as error:  # which quotes names of fields alone
        problem = f"RELAYDECK_MASTER_KEY_FROM does not describe a key of {source.driver}: {error}"
        raise OperatorError(problem, "Correct it: docs/keys.md lists its fields.") from None


def _fields(source: KeySource) -> Iterator[tuple[str, str | msgspec.Raw]]:
    for name, value in source.fields.items():
        if isinstance(value, str):
            yield name, value
            continue
        try:
            content = Path(value["file"]).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            problem = f"the file {value['file']} with {name} of RELAYDECK_MASTER_KEY_FROM cannot be read: {reason}"
            raise OperatorError(problem, "Correct the file or the setting.") from None
        yield name, msgspec.Raw(content.encode()) if content.startswith("{") else content  # a service account
