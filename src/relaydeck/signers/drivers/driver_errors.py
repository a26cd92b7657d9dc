"""Every way a key can fail to prove itself.

    DriverError                the outcome that a check reports
    ├── NotBound               unbound            no driver is bound to the signer's type, or it is not installed
    ├── ConfigUnusable         unusable_config    the signer's config cannot be used as it is
    ├── KeySystemUnreachable   unreachable        no connection, no answer in time, or a failing server
    ├── AccessDenied           access_denied      the key system refuses these credentials, or the key is disabled
    ├── KeyNotFound            key_not_found      the key system knows no such key
    ├── WrongKeyKind           wrong_key_kind     the key exists, but is not a secp256k1 signing key
    ├── Throttled              throttled          the key system refuses more requests for now
    ├── AnswerRejected         does_not_verify    the answer is malformed, or its signature is not of this key
    └── CannotSign             cannot_sign        the key is as configured, but the system cannot sign for Ethereum

A message is written by Relaydeck alone. It never quotes the config, a credential, or text that a key system sent.
"""

from typing import ClassVar

from relaydeck.errors import RelaydeckError


class DriverError(RelaydeckError):
    outcome: ClassVar[str]


class NotBound(DriverError):
    outcome = "unbound"


class ConfigUnusable(DriverError):
    outcome = "unusable_config"


class KeySystemUnreachable(DriverError):
    outcome = "unreachable"


class AccessDenied(DriverError):
    outcome = "access_denied"


class KeyNotFound(DriverError):
    outcome = "key_not_found"


class WrongKeyKind(DriverError):
    outcome = "wrong_key_kind"


class Throttled(DriverError):
    outcome = "throttled"


class AnswerRejected(DriverError):
    outcome = "does_not_verify"


class CannotSign(DriverError):
    outcome = "cannot_sign"
