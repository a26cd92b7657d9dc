"""EVM addresses: written with their EIP-55 checksum, and derived from a signer's key where that can be."""

from relaydeck.secret import Secret
from relaydeck.signers.hints import is_evm_address, is_private_key
from relaydeck.signers.shapes import Config, LocalConfig, WalletServiceConfig

EXPECTED = "expected an address: 0x and 40 hexadecimal digits"


def checksummed(address: str) -> str:
    from eth_hash.auto import keccak

    digits = address[2:].lower()
    hashed = keccak(digits.encode()).hex()
    return "0x" + "".join(d.upper() if int(h, 16) >= 8 else d for d, h in zip(digits, hashed, strict=False))


def address_problem(address: str) -> str:
    """What is wrong with an address; one in mixed case has a checksum, which must hold."""
    if not is_evm_address(address):
        return EXPECTED
    digits = address[2:]
    if digits in (digits.lower(), digits.upper()) or address == checksummed(address):
        return ""
    return "the checksum of this address (its upper and lower case) does not hold: a digit may be mistyped"


def derived_address(config: Config) -> str:
    """The address a signer signs for; empty when it cannot be known from here."""
    match config:
        case LocalConfig(key=key) if is_private_key(key.reveal()):
            return _address_of_key(key)
        case WalletServiceConfig(account_address=address) if is_evm_address(address):
            return checksummed(address)
    return ""


def _address_of_key(key: Secret) -> str:
    from coincurve import PublicKey
    from eth_hash.auto import keccak

    public = PublicKey.from_valid_secret(bytes.fromhex(key.reveal().removeprefix("0x")))
    return checksummed("0x" + keccak(public.format(compressed=False)[1:])[-20:].hex())
