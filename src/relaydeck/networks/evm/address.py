"""EVM addresses, written with their EIP-55 checksum, and Keccak-256, the hash that they come from."""

import re
from typing import TYPE_CHECKING, Annotated

from relaydeck.fields import TextForm, value_type

if TYPE_CHECKING:
    from coincurve import PublicKey

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
EXPECTED = "an address: 0x and 40 hexadecimal digits"


def is_evm_address(text: str) -> bool:
    return bool(_ADDRESS.fullmatch(text))


def keccak(data: bytes) -> bytes:
    from Crypto.Hash import keccak as library  # loads for a tenth of a second, and few commands need it

    return library.new(digest_bits=256, data=data).digest()


def checksummed(address: str) -> str:
    digits = address[2:].lower()
    hashed = keccak(digits.encode()).hex()
    return "0x" + "".join(d.upper() if int(h, 16) >= 8 else d for d, h in zip(digits, hashed, strict=False))


def address_of(public_key: "PublicKey") -> str:
    """The address of a key, in lower case."""
    return "0x" + keccak(public_key.format(compressed=False)[1:])[-20:].hex()


def address_problem(address: str) -> str:
    """Return what is wrong with an address. The checksum of one in mixed case must be correct."""
    if not is_evm_address(address):
        return f"expected {EXPECTED}"
    digits = address[2:]
    if digits in (digits.lower(), digits.upper()) or address == checksummed(address):
        return ""
    return "the checksum of this address (its upper and lower case) does not hold: a digit may be mistyped"


def address_of_private_key(key: bytes) -> str:
    from coincurve import PublicKey

    return checksummed(address_of(PublicKey.from_valid_secret(key)))


EvmAddress = Annotated[str, value_type(address_problem, TextForm(EXPECTED, parse=checksummed, sample="0x…"))]
