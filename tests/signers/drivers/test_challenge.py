"""A challenge can be nothing else: no transaction, authorization, personal message or typed data hashes to it."""

import rlp

from relaydeck.networks.evm.address import keccak
from relaydeck.signers.drivers import challenge
from tests.support.accounts import eth_account, example


def test_no_transaction_starts_like_a_challenge() -> None:
    """EIP-2718: a type is at most 0x7f, and a legacy transaction is an RLP list, from 0xc0 up."""
    legacy = rlp.encode([b"", b"", b"", b"", b"", b""])
    assert 0x7F < challenge.FIRST_BYTE < 0xC0 <= legacy[0]


def test_no_message_starts_like_a_challenge() -> None:
    messages = eth_account().messages
    personal = messages.encode_defunct(text="hello")
    typed = messages.encode_typed_data({"name": "x"}, {"A": [{"name": "b", "type": "uint256"}]}, {"b": 1})
    assert challenge.preimage(bytes(32))[0] not in (0x19, *personal.version, *typed.version)


def test_a_challenge_is_the_hash_of_its_purpose_and_random_bytes() -> None:
    made = challenge.preimage(b"r" * 32)
    assert made == b"\x9eRelaydeck proof of possession v1\n" + b"r" * 32
    assert len(challenge.new_challenge()) == len(keccak(made)) == 32


def test_no_challenge_comes_twice() -> None:
    assert len({challenge.new_challenge() for _ in range(100)}) == 100


def test_a_signed_challenge_is_no_signature_of_a_message() -> None:
    """A wallet that recovers the signer of the same bytes as a personal message finds somebody else."""
    digest = challenge.new_challenge()
    signature = example().unsafe_sign_hash(digest).signature
    personal = eth_account().messages.encode_defunct(primitive=digest)
    assert eth_account().Account.recover_message(personal, signature=signature) != example().address
