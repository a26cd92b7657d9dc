"""Hints about values in a signer's config that cannot work. They are stored anyway, and a hint never quotes one."""

import re

import msgspec

from relaydeck.networks.evm.address import is_evm_address
from relaydeck.secret import Secret
from relaydeck.signers.signer_types import Config, LocalConfig, WalletServiceConfig
from relaydeck.web_addresses import header_value_problem, key_system_address_problem

_KEY = re.compile(r"(0x)?[0-9a-fA-F]{64}")
# Certainly between zero and the order of the curve, which saves computing with it.
_PLAINLY_KEY = re.compile(r"(?:0x)?(?!0{8}|[fF]{8})[0-9a-fA-F]{64}")
_CURVE_ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141


def is_private_key(text: str) -> bool:
    """Whether `text` is 32 bytes of hex that are a key of the secp256k1 curve."""
    if _PLAINLY_KEY.fullmatch(text):
        return True
    return bool(_KEY.fullmatch(text)) and 0 < int(text.removeprefix("0x"), 16) < _CURVE_ORDER


def hints(config: Config) -> list[str]:
    if isinstance(config, LocalConfig) and is_private_key(config.key.reveal()):
        return []  # by far the most frequent case
    found = [f"config.{name} is empty" for name in config.__struct_fields__ if _is_empty(getattr(config, name))]
    match config:
        case LocalConfig(key=key) if key.reveal():
            found.append("config.key is not a 32-byte hexadecimal private key, so it cannot sign")
        case WalletServiceConfig(account_address=address) if address and not is_evm_address(address):
            found.append("config.account_address is not a 20-byte hexadecimal address")
    address = getattr(config, "address", "")
    if address and (problem := key_system_address_problem(address)):
        found.append(f"config.address {problem}: nothing is sent there")
    namespace = getattr(config, "namespace", "")
    if namespace and (problem := header_value_problem(namespace)):
        found.append(f"config.namespace {problem}: nothing is sent with it")
    return found


def _is_empty(value: str | Secret | msgspec.Raw | msgspec.UnsetType) -> bool:
    return value == "" or (isinstance(value, Secret) and not value.reveal())
