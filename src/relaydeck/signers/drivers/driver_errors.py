"""Every way a key can fail to prove itself. A check reports the outcome.

A message is written by Relaydeck alone. It never quotes the config, a credential, or text that a key system sent.
"""

from typing import ClassVar

from relaydeck.errors import RelaydeckError


class DriverError(RelaydeckError):
    outcome: ClassVar[str]

    def __init_subclass__(cls, *, outcome: str) -> None:
        cls.outcome = outcome


class CannotSign(DriverError, outcome="cannot_sign"):
    """The key is as configured, but the system cannot sign for Ethereum."""


class KeySystemUnreachable(DriverError, outcome="unreachable"):
    """No connection, no answer in time, or a failing server."""


class AccessDenied(DriverError, outcome="access_denied"):
    """The key system refuses these credentials, or the key is disabled."""


class KeyNotFound(DriverError, outcome="key_not_found"):
    """The key system knows no such key."""


class WrongKeyKind(DriverError, outcome="wrong_key_kind"):
    """The key exists, but is not a secp256k1 signing key."""


class Throttled(DriverError, outcome="throttled"):
    """The key system refuses more requests for now."""


class AnswerRejected(DriverError, outcome="does_not_verify"):
    """The answer is malformed, or its signature is not of this key."""


class ConfigUnusable(DriverError, outcome="unusable_config"):
    """The signer's config cannot be used as it is."""


class NotBound(DriverError, outcome="unbound"):
    """No driver is bound to the signer's type, or it is not installed."""
