"""A sealed value opens in its own place and unchanged, or not at all."""

from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from relaydeck.errors import Damaged, OperatorError
from relaydeck.store.row_proofs import RowProofs
from relaydeck.store.sealing import (
    Keyring,
    MasterKey,
    Nonces,
    Place,
    create_master_key,
    new_data_key,
    open_keyring,
    read_master_key,
    sealing_key_of,
)

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


def test_nonces_are_whole_and_share_no_bytes() -> None:
    source = Nonces()
    nonces = [source.take() for _ in range(600)]
    assert {len(nonce) for nonce in nonces} == {12}
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


def test_a_data_key_is_wrapped_by_its_master_key_alone() -> None:
    wrapped = new_data_key(MasterKey(b"m" * 32))
    with pytest.raises(InvalidTag):
        MasterKey(b"n" * 32).unwrap(wrapped)


def test_a_keyring_does_not_open_under_another_master_key() -> None:
    wrapped = new_data_key(MasterKey(b"m" * 32))
    with pytest.raises(OperatorError) as error:
        open_keyring(MasterKey(b"n" * 32), [(1, wrapped)])
    assert error.value.problem == "the master key does not open this database's keyring"
    assert error.value.remedy == ("Restore the master key file of this database (RELAYDECK_MASTER_KEY_FILE).")


def test_an_empty_keyring_has_no_active_key() -> None:
    assert (Keyring({}, PROOFS).active, Keyring({}, PROOFS).knows(1)) == (0, False)


def test_a_keyring_proves_rows_with_the_key_of_its_master() -> None:
    master = MasterKey(b"m" * 32)
    assert open_keyring(master, []).proofs is master.proofs


def test_a_missing_master_key_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as error:
        read_master_key(tmp_path / "master.key")
    assert (error.value.problem, error.value.remedy) == (
        f"the master key file {tmp_path / 'master.key'} is missing",
        "Restore it from your backup: without it the sealed secrets of this database cannot be opened.",
    )


def test_a_master_key_that_cannot_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as error:
        read_master_key(tmp_path)
    assert (error.value.problem, error.value.remedy) == (
        f"the master key file {tmp_path} cannot be used: Is a directory",
        "Check the file and its permissions, or restore it from your backup.",
    )


def test_a_new_master_key_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    assert (tmp_path / "master.key").stat().st_mode & 0o777 == 0o600


def test_an_existing_master_key_is_left_as_it_is(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key", lambda size: b"a" * size)
    create_master_key(tmp_path / "master.key", lambda size: b"b" * size)
    assert (tmp_path / "master.key").read_text() == "61" * 32 + "\n"


def test_making_a_master_key_leaves_no_draft(tmp_path: Path) -> None:
    create_master_key(tmp_path / "master.key")
    assert [path.name for path in tmp_path.iterdir()] == ["master.key"]


@pytest.mark.parametrize("content", [b"", b"00" * 31, b"00" * 33, b"zz" * 32, b"\xff" * 64])
def test_a_file_that_is_no_master_key_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "master.key").write_bytes(content)
    with pytest.raises(OperatorError) as error:
        read_master_key(tmp_path / "master.key")
    reason = "it is not 64 hexadecimal digits"
    assert error.value.problem == f"the master key file {tmp_path / 'master.key'} cannot be used: {reason}"
