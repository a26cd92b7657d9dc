"""Keys that a key system has wrapped: unwrapped once, and then only in the memory of this process.

A process that is forked knows what its parent has unwrapped, so a worker that is replaced does not need the key system.
Who starts the process says how to find the key system: the store, which reads wrapped keys, cannot know drivers.
"""

import time
from collections.abc import Callable
from typing import Protocol

from relaydeck.errors import OperatorError

_PREFIX = "wrapped:"
_AGAIN_SECONDS = 30.0  # a service that lacks a new key asks no more often: writes wait meanwhile


class KeySystem(Protocol):
    def wrap(self, key: bytes) -> str: ...

    def unwrap(self, wrapped: str, *, patient: bool) -> bytes:
        """`patient`: try several times. Both raise OperatorError."""


class WrappedKeys:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.find_system: Callable[[], KeySystem | None] = lambda: None
        self._monotonic = monotonic
        self._known: dict[str, bytes] = {}
        self._failed: dict[str, tuple[OperatorError, float]] = {}  # and when

    def wrap(self, key: bytes) -> str:
        """The line of a file that has this key. Without a key system, that is the key itself."""
        system = self.find_system()
        if system is None:
            return key.hex()
        line = _PREFIX + system.wrap(key)
        self._known[line] = key
        return line

    def unwrap(self, line: str, *, anew: bool = False) -> bytes:
        """`anew`: ask also for a key that is known. Raises ValueError for what is no line, and OperatorError."""
        if not line.startswith(_PREFIX):
            return bytes.fromhex(line)
        if anew or line not in self._known:
            self._known[line] = self._ask(line.removeprefix(_PREFIX), anew=anew)
        return self._known[line]

    def _ask(self, wrapped: str, *, anew: bool) -> bytes:
        if not anew and wrapped in self._failed:
            failure, at = self._failed[wrapped]
            if self._monotonic() - at < _AGAIN_SECONDS:
                raise OperatorError(failure.problem, failure.remedy)
        system = self.find_system()
        if system is None:
            raise OperatorError(
                "a key system wraps the master key, and the settings do not say which",
                "Set RELAYDECK_MASTER_KEY_FROM as it was when the key was wrapped.",
            )
        try:
            return system.unwrap(wrapped, patient=not self._known)
        except OperatorError as error:
            self._failed[wrapped] = OperatorError(error.problem, error.remedy), self._monotonic()
            raise


def is_wrapped(line: str) -> bool:
    return line.startswith(_PREFIX)


WRAPPED_KEYS = WrappedKeys()
