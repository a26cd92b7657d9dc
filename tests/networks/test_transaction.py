"""Decoding: published vectors, every type there and back, and nothing malformed let through."""

from typing import Any

import pytest
import rlp
from eth_utils.address import to_checksum_address
from hypothesis import given, settings
from hypothesis import strategies as st

from relaydeck.networks.evm.errors import BadTransaction
from relaydeck.networks.evm.transaction import Transaction, decode
from tests.support.accounts import account

MAX = 131_072
KEY = "0x" + "46" * 32
SIGNER = "0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f"  # of that key, as EIP-155 publishes it


def read(text: str, chain_id: int = 1) -> Transaction:
    return decode(text, chain_id=chain_id, max_bytes=MAX)


EIP155_SIGNED = (
    "0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025"
    "a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276"
    "a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
)
EIP155_SIGNING_DATA = "0xec098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a764000080018080"
VECTORS = [
    # EIP-155, "Example"
    (EIP155_SIGNED, 1, {"type": 0, "sender": SIGNER, "nonce": 9, "gas_price": 20 * 10**9, "value": 10**18}),
    (EIP155_SIGNING_DATA, 1, {"type": 0, "sender": None, "chain_id": 1, "gas_limit": 21000}),
    # go-ethereum, TestRecipientEmpty: before EIP-155, creates a contract
    (
        "0xf8498080808080011ca09b16de9d5bdee2cf56c28d16275a4da68cd30273e2525f3959f5d62557489921"
        "a0372ebd8fb3345f7db7b5a86d42e24d36e983e259b0664ceb8c227ec9af572f3d",
        5,
        {"chain_id": None, "to": None, "sender": "0xa94f5374fce5edbc8e2a8697c15331677e6ebf0b"},
    ),
    # go-ethereum, TestEIP2718TransactionEncode
    (
        "0x01f8630103018261a894b94f5374fce5edbc8e2a8697c15331677e6ebf0b0a825544c001"
        "a0c9519f4f2b30335884581971573fadf60c6204f59a911df35ee8a540456b2660"
        "a032f1e8e2c5dd761f9e4f88f41c8310aeaba26a8bfcdacfedfa12ec3862d37521",
        1,
        {"type": 1, "nonce": 3, "gas_limit": 25000, "value": 10, "data": b"\x55\x44"},
    ),
    # eth-account, typed transactions: access list, fee market, blob
    (
        "0x01f8ad82076c22843b9aca00830186a09409616c3d61b3331fc4109a9e41a8bdb7d9776609865af3107a4000"
        "86616263646566f838f7940000000000000000000000000000000000000001e1a00100000000000000000000000"
        "00000000000000000000000000000000000000001a08289e85fa00f8f7f78a53cf147a87b2a7f0d27e64d7571f9"
        "d06a802e365c3430a017dc77eae36c88937db4a5179f57edc6119701652f3f1c6f194d1210d638a061",
        1900,
        {
            "type": 1,
            "sender": "0x96216849c49358b10257cb55b28ea603c874b05e",
            "access_list": (("0x" + "00" * 19 + "01", ("0x01" + "00" * 31,)),),
        },
    ),
    (
        "0x02f8758205390284773594008477359400830186a09496216849c49358b10257cb55b28ea603c874b05e865af3"
        "107a4000825544c001a0c3000cd391f991169ebfd5d3b9e93c89d31a61c998a21b07a11dc6b9d66f8a8e"
        "a022cfe8424b2fbd78b16c9911da1be2349027b0a3c40adf4b6459222323773f74",
        1337,
        {"type": 2, "max_fee_per_gas": 2 * 10**9, "max_priority_fee_per_gas": 2 * 10**9, "nonce": 2},
    ),
    (
        "0x03f89c8205390284773594008477359400830186a09496216849c49358b10257cb55b28ea603c874b05e865af3"
        "107a4000825544c08477359400e1a001a915e4d060149eb4365960e6a7a45f334393093061116b197e3240065ff2"
        "d801a0be1552b754ad4aeb9fef74bbe1adc9384e2e78f873480e510b932847cdae9a58"
        "a03a4cfa2158d6a9d4d54ff42eedbedfdad0573366cb757209179107b15b1a1eeb",
        1337,
        {"type": 3, "max_fee_per_blob_gas": 2 * 10**9, "blob_gas": 131_072},
    ),
]


@pytest.mark.parametrize(("text", "chain_id", "expected"), VECTORS)
def test_published_vectors(text: str, chain_id: int, expected: dict[str, Any]) -> None:
    found = read(text, chain_id)
    assert {name: getattr(found, name) for name in expected} == expected


# -- there and back ---------------------------------------------------------------------------------

uint64 = st.integers(0, 2**64 - 2)
uint256 = st.integers(0, 2**256 - 1)
addresses = st.binary(min_size=20, max_size=20)
access_lists = st.lists(st.tuples(addresses, st.lists(st.binary(min_size=32, max_size=32), max_size=3)), max_size=3)
blob_hashes = st.lists(st.binary(min_size=31, max_size=31).map(lambda tail: b"\x01" + tail), min_size=1, max_size=6)
authorizations = st.lists(
    st.tuples(uint256, addresses, uint64, st.integers(0, 255), uint256, uint256), min_size=1, max_size=3
)


@st.composite
def unsigned(draw: st.DrawFn) -> tuple[int, dict[str, Any], list[Any]]:
    """A transaction's type, what decoding must say of it, and its fields in the order they are encoded."""
    kind = draw(st.integers(0, 4))
    creates = kind < 3 and draw(st.booleans())
    to = b"" if creates else draw(addresses)
    nonce, limit, value, data = draw(uint64), draw(uint64), draw(uint256), draw(st.binary(max_size=100))
    says = {"type": kind, "nonce": nonce, "gas_limit": limit, "value": value, "data": data, "chain_id": 1,
            "to": None if creates else "0x" + to.hex()}  # fmt: skip
    if kind == 0:
        price = draw(uint256)
        return kind, {**says, "gas_price": price}, [nonce, price, limit, to, value, data]
    access = draw(access_lists)
    says["access_list"] = tuple(("0x" + a.hex(), tuple("0x" + k.hex() for k in keys)) for a, keys in access)
    if kind == 1:
        price = draw(uint256)
        return kind, {**says, "gas_price": price}, [1, nonce, price, limit, to, value, data, access]
    tip, most = sorted((draw(uint256), draw(uint256)))
    says |= {"max_priority_fee_per_gas": tip, "max_fee_per_gas": most}
    fields: list[Any] = [1, nonce, tip, most, limit, to, value, data, access]
    if kind == 3:
        blob_fee, hashes = draw(uint256), draw(blob_hashes)
        says |= {"max_fee_per_blob_gas": blob_fee, "blob_hashes": tuple("0x" + h.hex() for h in hashes)}
        fields += [blob_fee, hashes]
    if kind == 4:
        fields.append(draw(authorizations))
    return kind, says, fields


def encoded(kind: int, fields: list[Any]) -> str:
    payload: bytes = rlp.encode(fields)
    return "0x" + (bytes([kind]) if kind else b"").hex() + payload.hex()


@given(unsigned(), st.integers(0, 2))
@settings(max_examples=150, deadline=None)
def test_decode_of_encode_unsigned(case: tuple[int, dict[str, Any], list[Any]], form: int) -> None:
    """In each of the ways libraries write an unsigned one: no signature fields, or zeros."""
    kind, says, fields = case
    tail: list[Any] = [] if form == 0 else [1 if kind == 0 else 0, 0, 0]
    if kind == 0 and form == 0:
        says = {**says, "chain_id": None}
    found = read(encoded(kind, fields + tail))
    assert {name: getattr(found, name) for name in says} == says
    assert found.sender is None
    if kind == 4:
        assert [(a.chain_id, a.nonce, a.r, a.s) for a in found.authorizations] == [
            (a[0], a[2], a[4], a[5]) for a in fields[9]
        ]


@given(unsigned())
@settings(max_examples=60, deadline=None)
def test_decode_of_encode_signed(case: tuple[int, dict[str, Any], list[Any]]) -> None:
    from eth_utils.crypto import keccak

    kind, says, fields = case
    preimage = [*fields, 1, 0, 0] if kind == 0 else fields
    digest = keccak((bytes([kind]) if kind else b"") + rlp.encode(preimage))
    signature = account(KEY).unsafe_sign_hash(digest)
    v = signature.v - 27 + (37 if kind == 0 else 0)
    found = read(encoded(kind, [*fields, v, signature.r, signature.s]))
    assert {name: getattr(found, name) for name in says} == says
    assert found.sender == SIGNER


@given(unsigned())
@settings(max_examples=25, deadline=None)
def test_an_independent_signer_agrees(case: tuple[int, dict[str, Any], list[Any]]) -> None:
    kind, says, _ = case
    if kind > 2:
        return
    whole = {"chainId": 1, "nonce": says["nonce"], "gas": says["gas_limit"], "value": says["value"],
             "data": says["data"]}  # fmt: skip
    if says["to"]:
        whole["to"] = to_checksum_address(says["to"])
    if kind == 2:
        whole |= {
            "maxFeePerGas": says["max_fee_per_gas"],
            "maxPriorityFeePerGas": says["max_priority_fee_per_gas"],
        }
    else:
        whole["gasPrice"] = says["gas_price"]
    if kind:
        whole |= {
            "type": kind,
            "accessList": [{"address": a, "storageKeys": list(keys)} for a, keys in says["access_list"]],
        }
    found = read(account(KEY).sign_transaction(whole).raw_transaction.to_0x_hex())
    assert found.sender == SIGNER
    assert found.value == says["value"]


# -- nothing malformed ------------------------------------------------------------------------------

A = b"\x11" * 20
GOOD_2 = [1, 0, 1, 2, 21000, A, 0, b"", []]


def with_field(index: int, value: Any) -> str:
    return encoded(2, [*GOOD_2[:index], value, *GOOD_2[index + 1 :]])


MALFORMED = {
    "no prefix": ("f86c", "does not start with 0x"),
    "nothing": ("0x", "is empty"),
    "odd": ("0x123", "not hex"),
    "white space": ("0xc0 c0", "not hex"),
    "letters": ("0xzz", "not hex"),
    "unicode digits": ("0x١٢", "not hex"),
    "too long": ("0x" + "00" * (MAX + 1), f"longer than {MAX} bytes"),
    "unknown type": ("0x05c0", "type 5 is not supported"),
    "a string": ("0x8401020304", "type 132 is not supported"),
    "typed string": ("0x0280", "not a list"),
    "typed nothing": ("0x02", "not a list"),
    "truncated": (EIP155_SIGNED[:-2], "truncated"),
    "truncated inside": ("0xec098504a8", "truncated"),
    "trailing": (EIP155_SIGNED + "00", "bytes follow its end"),
    "long form of a short length": ("0xf800", "canonical"),
    "byte as a string": ("0x02c18101", "canonical"),
    "nested too deeply": ("0x" + "c1" * 50 + "c0", "field|truncated|canonical"),
    "too few fields": ("0xc20101", "6 or 9 fields, not 2"),
    "too few typed fields": ("0x02c20101", "9 fields, or 12 signed, not 2"),
    "leading zeros": (with_field(1, b"\x00\x01"), "nonce has leading zeros"),
    "zero as a byte": (with_field(6, b"\x00"), "value has leading zeros"),
    "list for a number": (with_field(4, []), "gas limit is a list"),
    "number too long": (with_field(4, b"\x01" * 9), "gas limit is longer than 64 bits"),
    "value too long": (with_field(6, b"\x01" * 33), "value is longer than 256 bits"),
    "nonce too high": (with_field(1, 2**64 - 1), "nonce is larger"),
    "address too short": (with_field(5, b"\x11" * 19), "to is not 20 bytes"),
    "list for an address": (with_field(5, [A]), "to is not 20 bytes"),
    "list for data": (with_field(7, []), "data is a list"),
    "access list of bytes": (with_field(8, b"\x01\x02"), "access list is not a list"),
    "access list entry": (with_field(8, [[A]]), "access list entry has 1 fields instead of 2"),
    "access list address": (with_field(8, [[b"\x01", []]]), "access list address is not 20 bytes"),
    "access list key": (with_field(8, [[A, [b"\x01"]]]), "access list storage key is not 32 bytes"),
    "tip above the most": (with_field(2, 3), "max priority fee per gas is higher"),
    "other chain": (with_field(0, 5), "for chain id 5, not 1"),
    "other legacy chain": (encoded(0, [0, 1, 2, A, 0, b"", 5, 0, 0]), "for chain id 5, not 1"),
    "no such v": (encoded(0, [0, 1, 2, A, 0, b"", 29, 1, 1]), "v is neither"),
    "no such parity": (encoded(2, [*GOOD_2, 2, 1, 1]), "y parity is neither 0 nor 1"),
    "r too high": (encoded(2, [*GOOD_2, 1, 2**256 - 1, 1]), "r or s is out of range"),
    "s too high": (encoded(2, [*GOOD_2, 1, 1, 2**255]), "r or s is out of range"),
    "no such point": (encoded(2, [*GOOD_2, 1, 5, 1]), "no key belongs"),
    "blob creates": (encoded(3, [1, 0, 1, 2, 1, b"", 0, b"", [], 1, [b"\x01" * 32]]), "cannot create"),
    "no blobs": (encoded(3, [1, 0, 1, 2, 1, A, 0, b"", [], 1, []]), "without blobs"),
    "blob version": (encoded(3, [1, 0, 1, 2, 1, A, 0, b"", [], 1, [b"\x02" * 32]]), "unknown version"),
    "with blobs": (encoded(3, [[1, 0], [], [], []]), "canonical form without them"),
    "no authorizations": (encoded(4, [*GOOD_2, []]), "without authorizations"),
    "short authorization": (encoded(4, [*GOOD_2, [[1, A]]]), "authorization has 2 fields instead of 6"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_is_refused_in_words(case: str) -> None:
    text, words = MALFORMED[case]
    with pytest.raises(BadTransaction, match=words):
        read(text)


def test_deep_nesting_is_refused() -> None:
    raw = b"\xc0"
    for _ in range(3_000):
        raw = _wrapped(raw)
    with pytest.raises(BadTransaction, match=r"nested too deeply|6 or 9 fields"):  # with a raised recursion limit
        read("0x" + raw.hex())


@pytest.mark.parametrize("kind", [0, 2])
def test_a_signed_transaction_with_a_deeply_nested_field_is_refused(kind: int) -> None:
    """Its fields are read before they are encoded again for the signature."""
    nested: Any = []
    for _ in range(400):
        nested = [nested]
    items = [0, 1, 21_000, b"", 0, nested, 27, 1, 1] if kind == 0 else [1, 0, 1, 1, 21_000, b"", 0, nested, [], 0, 1, 1]
    raw = b"".join(_encoded(each) for each in items)
    text = "0x" + (b"" if kind == 0 else bytes([kind])).hex() + _wrapped(raw).hex()
    with pytest.raises(BadTransaction, match="data is a list"):
        decode(text, chain_id=1, max_bytes=131_072)


def _encoded(item: Any) -> bytes:
    if not isinstance(item, list):
        return bytes(rlp.encode(item))
    raw = b""
    while item:
        item, raw = item[0], _wrapped(raw)
    return _wrapped(raw)


def _wrapped(raw: bytes) -> bytes:
    size = len(raw)
    if size < 56:
        return bytes([0xC0 + size]) + raw
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0xF7 + len(length)]) + length + raw


@given(st.one_of(st.text(max_size=80), st.binary(max_size=200).map(lambda raw: "0x" + raw.hex())))
@settings(max_examples=300, deadline=None)
def test_no_input_raises_anything_else(text: str) -> None:
    try:
        read(text)
    except BadTransaction as fault:
        assert str(fault)


@given(st.sampled_from([text for text, _, _ in VECTORS]), st.data())
@settings(max_examples=300, deadline=None)
def test_no_mutation_raises_anything_else(text: str, data: st.DataObject) -> None:
    raw = bytearray.fromhex(text[2:])
    for _ in range(data.draw(st.integers(1, 3))):
        where = data.draw(st.integers(0, len(raw) - 1))
        raw[where : where + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
        if not raw:
            return
    try:
        read("0x" + raw.hex(), 1337)
    except BadTransaction as fault:
        assert str(fault)
