"""The only thing that Relaydeck ever has a key sign: a random challenge that means nothing to anybody else.

A signature over the hash of a transaction, an authorization or typed data moves money. A challenge can never be such a
hash, because of the first byte of what is hashed:

    0x00 … 0x7f   a typed transaction (EIP-2718) or an authorization (EIP-7702) starts here, and so does 0x19, the
                  start of a personal message and of typed data (EIP-191, EIP-712)
    0x80 … 0xbf   RLP strings: no transaction starts here
    0xc0 … 0xff   RLP lists: a legacy transaction starts here

A challenge starts with 0x9e, then names its purpose, then carries 32 random bytes drawn here. Its hash equals the hash
of a message with another first byte only if Keccak-256 has a collision. The random bytes also make a recorded
signature worthless: it does not answer the next challenge.
"""

import secrets

from relaydeck.networks.evm.address import keccak

FIRST_BYTE = 0x9E
_PURPOSE = b"Relaydeck proof of possession v1\n"
keccak(b"")  # loads its library where drivers are loaded: in a thread


def new_challenge() -> bytes:
    """32 bytes to sign."""
    return keccak(preimage(secrets.token_bytes(32)))


def preimage(random: bytes) -> bytes:
    return bytes([FIRST_BYTE]) + _PURPOSE + random
