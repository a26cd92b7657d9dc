"""Addresses, against an independent implementation."""

from eth_keys.datatypes import PrivateKey
from eth_utils.address import to_checksum_address
from hypothesis import given, settings
from hypothesis import strategies as st

from relaydeck.networks.evm.address import address_problem, checksummed
from relaydeck.secret import Secret
from relaydeck.signers.known_addresses import derived_address
from relaydeck.signers.signer_types import LocalConfig

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


@settings(deadline=None)
@given(st.binary(min_size=20, max_size=20))
def test_checksums(address: bytes) -> None:
    expected = to_checksum_address(address)
    for written in (expected, expected.lower(), "0x" + expected[2:].upper()):
        assert address_problem(written) == ""
        assert checksummed(written) == expected


@settings(deadline=None)
@given(st.integers(1, ORDER - 1))
def test_derivation(key: int) -> None:
    written = f"{key:064x}"
    expected = PrivateKey(key.to_bytes(32, "big")).public_key.to_checksum_address()
    assert derived_address(LocalConfig(key=Secret(written))) == expected
    assert derived_address(LocalConfig(key=Secret(f"0x{written}"))) == expected


def test_a_mistyped_address_is_noticed() -> None:
    assert "checksum" in address_problem("0x2c7536E3605D9C16a7a3D7b1898e529396a65c24")
    assert "40 hexadecimal digits" in address_problem("0x2c7536E3605D9C16a7a3D7b1898e529396a65c2")


def test_what_is_no_key_has_no_address() -> None:
    for text in ("", "0x" + "0" * 64, f"{ORDER:064x}", "hunter2"):
        assert derived_address(LocalConfig(key=Secret(text))) == ""
