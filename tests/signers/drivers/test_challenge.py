"""A challenge can be nothing else: no transaction, authorization, personal message or typed data hashes to it.

`eth_account` is imported by the tests that need it, see `tests/accounts.py`.
"""

import rlp

from relaydeck.networks.evm.keccak import keccak
from relaydeck.signers.drivers import challenge


def test_no_transaction_starts_like_a_challenge() -> None:
    """EIP-2718: a type is at most 0x7f, and a legacy transaction is an RLP list, from 0xc0 up."""
    legacy = rlp.encode([b"", b"", b"", b"", b"", b""])
    assert 0x7F < challenge.FIRST_BYTE < 0xC0 <= legacy[0]


def test_no_message_starts_like_a_challenge() -> None:
    from eth_account.messages import encode_defunct, encode_typed_data

    personal = encode_defunct(text="hello")
    typed = encode_typed_data({"name": "x"}, {"A": [{"name": "b", "type": "uint256"}]}, {"b": 1})
    assert challenge.preimage(bytes(32))[0] not in (0x19, *personal.version, *typed.version)


def test_a_challenge_is_the_hash_of_its_purpose_and_random_bytes() -> None:
    made = challenge.preimage(b"r" * 32)
    assert made == b"\x9eRelaydeck proof of possession v1\n" + b"r" * 32
    assert len(challenge.new_challenge()) == len(keccak(made)) == 32


def test_no_challenge_comes_twice() -> None:
    assert len({challenge.new_challenge() for _ in range(100)}) == 100


def test_a_signed_challenge_is_no_signature_of_a_message() -> None:
    """A wallet that recovers the signer of the same bytes as a personal message finds somebody else."""
    from eth_account import Account
    from eth_account.messages import encode_defunct

    account = Account.create()
    digest = challenge.new_challenge()
    signature = account.unsafe_sign_hash(digest).signature
    assert Account.recover_message(encode_defunct(primitive=digest), signature=signature) != account.address
