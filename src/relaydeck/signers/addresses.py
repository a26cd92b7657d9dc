"""Derives the address of a signer from its config, where the config is enough."""

from relaydeck.networks.evm.address import address_of_private_key, checksummed, is_evm_address
from relaydeck.signers.hints import is_private_key
from relaydeck.signers.signer_types import Config, LocalConfig, WalletServiceConfig


def derived_address(config: Config) -> str:
    """The address that the signer signs for; empty when the config alone does not determine it."""
    match config:
        case LocalConfig(key=key) if is_private_key(key.reveal()):
            return address_of_private_key(bytes.fromhex(key.reveal().removeprefix("0x")))
        case WalletServiceConfig(account_address=address) if is_evm_address(address):
            return checksummed(address)
    return ""
