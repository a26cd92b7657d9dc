"""Derives the address of a signer from its config, where the config is enough."""

from relaydeck.networks.evm.address import address_of, checksummed, is_evm_address
from relaydeck.secret import Secret
from relaydeck.signers.hints import is_private_key
from relaydeck.signers.shapes import Config, LocalConfig, WalletServiceConfig


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

    return checksummed(address_of(PublicKey.from_valid_secret(bytes.fromhex(key.reveal().removeprefix("0x")))))
