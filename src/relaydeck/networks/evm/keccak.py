"""Keccak-256, the hash of Ethereum.

Its library takes a tenth of a second to load. Commands, which rarely need it, import this module where they do.
"""

from Crypto.Hash import keccak as _keccak


def keccak(data: bytes) -> bytes:
    return _keccak.new(digest_bits=256, data=data).digest()
