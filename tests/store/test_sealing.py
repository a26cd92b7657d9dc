"""A sealed value opens in its own place and unchanged, or not at all."""

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from relaydeck.errors import Damaged
from relaydeck.store.sealing import Keyring, Place, RowProofs, sealing_key_of

PROOFS = RowProofs(bytes(32))
KEYRING = Keyring({1: AESGCM(b"1" * 32), 2: AESGCM(b"2" * 32)}, PROOFS)
HERE = Place("signers", "ops", "config")

parts = st.text(max_size=12)
places = st.builds(Place, parts, parts, parts)


@given(plain=st.binary(max_size=200), place=places)
def test_what_is_sealed_opens_in_its_place(plain: bytes, place: Place) -> None:
    assert KEYRING.open(KEYRING.seal(plain, place), place) == plain


@given(plain=st.binary(max_size=64), place=places, data=st.data())
def test_any_flipped_bit_is_damage(plain: bytes, place: Place, data: st.DataObject) -> None:
    sealed = bytearray(KEYRING.seal(plain, place))
    bit = data.draw(st.integers(0, len(sealed) * 8 - 1))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Damaged):
        KEYRING.open(bytes(sealed), place)


@given(plain=st.binary(max_size=64), data=st.data())
def test_a_value_cut_short_is_damage(plain: bytes, data: st.DataObject) -> None:
    sealed = KEYRING.seal(plain, HERE)
    with pytest.raises(Damaged):
        KEYRING.open(sealed[: data.draw(st.integers(0, len(sealed) - 1))], HERE)


@given(plain=st.binary(max_size=64), added=st.binary(min_size=1, max_size=20))
def test_a_value_made_longer_is_damage(plain: bytes, added: bytes) -> None:
    with pytest.raises(Damaged):
        KEYRING.open(KEYRING.seal(plain, HERE) + added, HERE)


@given(sealed=st.binary(max_size=64))
def test_bytes_that_were_never_sealed_are_damage(sealed: bytes) -> None:
    with pytest.raises(Damaged):
        KEYRING.open(sealed, HERE)


@given(origin=places, target=places)
def test_a_value_moved_to_another_place_is_damage(origin: Place, target: Place) -> None:
    sealed = KEYRING.seal(b"secret", origin)
    if origin == target:
        assert KEYRING.open(sealed, target) == b"secret"
    else:
        with pytest.raises(Damaged):
            KEYRING.open(sealed, target)


def test_places_with_the_same_letters_are_not_the_same_place() -> None:
    sealed = KEYRING.seal(b"secret", Place("ab", "c", "d"))
    with pytest.raises(Damaged):
        KEYRING.open(sealed, Place("a", "bc", "d"))


def test_damage_names_the_place_and_nothing_of_the_value() -> None:
    with pytest.raises(Damaged) as damage:
        KEYRING.open(b"\x01\x00\x00\x00\x02never sealed", HERE)
    assert str(damage.value) == "the sealed config of signers record 'ops' does not open"


def test_damage_by_an_unknown_key_names_the_place_too() -> None:
    with pytest.raises(Damaged) as damage:
        KEYRING.open(b"\x01\x00\x00\x00\x03never sealed", HERE)
    assert str(damage.value) == "the sealed config of signers record 'ops' does not open"


def test_each_value_has_a_nonce_of_its_own() -> None:
    nonces = [KEYRING.seal(b"secret", HERE)[5:17] for _ in range(600)]
    assert len({nonce[at : at + 4] for nonce in nonces for at in (0, 1, 7, 8)}) > 2390


def test_the_newest_key_seals() -> None:
    assert sealing_key_of(KEYRING.seal(b"secret", HERE)) == 2


def test_the_key_of_a_value_is_all_four_bytes() -> None:
    newest = Keyring({2**31: AESGCM(b"1" * 32)}, PROOFS)
    assert sealing_key_of(newest.seal(b"secret", HERE)) == 2**31


def test_an_older_key_still_opens() -> None:
    old = Keyring({1: AESGCM(b"1" * 32)}, PROOFS)
    assert KEYRING.open(old.seal(b"secret", HERE), HERE) == b"secret"


def test_a_value_of_a_key_that_is_gone_is_damage() -> None:
    sealed = KEYRING.seal(b"secret", HERE)
    with pytest.raises(Damaged):
        Keyring({1: AESGCM(b"1" * 32)}, PROOFS).open(sealed, HERE)


def test_the_same_value_is_sealed_differently_each_time() -> None:
    assert KEYRING.seal(b"secret", HERE) != KEYRING.seal(b"secret", HERE)


def test_an_empty_keyring_has_no_active_key() -> None:
    assert (Keyring({}, PROOFS).active, Keyring({}, PROOFS).knows(1)) == (0, False)


class _KeysOfAnotherThread:
    """Another thread has read the new keys just before this one looks, which therefore finds no others."""

    proofs: RowProofs

    def refreshed(self, transaction: object) -> object:
        return self

    def looked_again(self) -> bool:
        self.proofs.follow(RowProofs(b"new"))
        return False


def test_a_proof_holds_though_another_thread_has_read_its_key_meanwhile() -> None:
    keys = _KeysOfAnotherThread()
    keys.proofs = RowProofs(b"old", vault=keys)
    assert keys.proofs.holds(RowProofs(b"new").of("tokens", ("ci",)), "tokens", ("ci",))
    assert not keys.proofs.holds(RowProofs(b"other").of("tokens", ("ci",)), "tokens", ("ci",))
