"""Seals a master key with a passphrase, for a backup: scrypt (RFC 7914) and AES-256-GCM.

A sealed key is   version (1) | salt (16) | nonce (12) | ciphertext and tag.
"""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from relaydeck.errors import OperatorError
from relaydeck.secret import Secret

LEAST_CHARACTERS = 12
_VERSION = b"\x01"
_SALT_BYTES, _NONCE_BYTES = 16, 12
_COST = 2**17  # 128 MiB and a few tenths of a second for each guess
_BOUND = b"relaydeck master key in a backup"


def seal_master_key(key: bytes, passphrase: Secret) -> bytes:
    salt, nonce = os.urandom(_SALT_BYTES), os.urandom(_NONCE_BYTES)
    return _VERSION + salt + nonce + _cipher(passphrase, salt).encrypt(nonce, key, _BOUND)


def open_master_key(sealed: bytes, passphrase: Secret) -> bytes:
    version, salt, rest = sealed[:1], sealed[1 : 1 + _SALT_BYTES], sealed[1 + _SALT_BYTES :]
    try:
        if version != _VERSION:
            raise ValueError
        return _cipher(passphrase, salt).decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _BOUND)
    except (InvalidTag, ValueError):
        raise OperatorError(
            "the passphrase does not open the master key in this backup",
            "Use the passphrase that the backup was made with.",
        ) from None


def _cipher(passphrase: Secret, salt: bytes) -> AESGCM:
    return AESGCM(Scrypt(salt=salt, length=32, n=_COST, r=8, p=1).derive(passphrase.reveal().encode()))
