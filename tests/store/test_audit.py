"""The audit chain: any change, removal or reordering is found, at the right place."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relaydeck.credentials.people import EVERY_PROOF
from relaydeck.errors import ServerFailure
from relaydeck.store.audit import EMPTY, AuditEntry, AuditLog, BrokenLink, Head, head, read_head, verify
from relaydeck.store.database import Row, Transaction
from relaydeck.store.open_store import Store
from relaydeck.store.record_table import Hidden, difference, secret_fact, to_json
from relaydeck.store.rotation import Rotation
from relaydeck.store.sealing import RowProofs
from tests.support.seeding import opened

ROWS = 8


def append(log: AuditLog, transaction: Transaction, number: int) -> None:
    before = f'{{"name":"{number}"}}'
    deed = AuditEntry(1_800_000_000 + number, f"token:{number}", "relayer.updated", f"r{number}", before)
    log.append(transaction, [deed])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with opened(tmp_path_factory.mktemp("audit") / "home") as store:
        log = AuditLog(store.vault)
        for number in range(ROWS):
            with store.database.transaction() as transaction:
                append(log, transaction, number)
        yield store


class Undone(Exception):
    pass


@contextmanager
def undone(store: Store) -> Iterator[Transaction]:
    """A transaction of which nothing remains."""
    try:
        with store.database.transaction() as transaction:
            yield transaction
            raise Undone
    except Undone:
        pass


def reading(transaction: Transaction) -> Callable[[str], Iterable[Row]]:
    """How `verify` reads, inside a transaction."""
    return transaction.all


def after(store: Store, *statements: tuple[str, dict[str, Any]], kept: Head | None = None) -> Head | BrokenLink:
    """The result of `verify` after these statements."""
    with undone(store) as transaction:
        for sql, values in statements:
            transaction.execute(sql, values)
        return verify(reading(transaction), store.vault, kept)
    raise AssertionError


def test_an_untouched_chain_holds_and_ends_in_its_head(store: Store) -> None:
    found = after(store)
    assert found == head(store.database.read)
    assert isinstance(found, Head) and found.seq == ROWS
    assert after(store, kept=found) == found
    assert read_head(str(found)) == found


sequence = st.integers(1, ROWS)
hypothesis_settings = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
VALUES = {
    "moment": st.integers(0, 2**40),
    "actor": st.text(max_size=20),
    "action": st.text(max_size=20),
    "record": st.text(max_size=20),
    "before_change": st.none() | st.text(max_size=20),
    "after_change": st.none() | st.text(max_size=20),
    "hash": st.binary(min_size=0, max_size=40),
}


@st.composite
def changes(draw: st.DrawFn) -> tuple[int, str, Any]:
    column = draw(st.sampled_from(sorted(VALUES)))
    return draw(sequence), column, draw(VALUES[column])


@given(change=changes())
@hypothesis_settings
def test_a_changed_row_is_found_at_its_place(store: Store, change: tuple[int, str, Any]) -> None:
    seq, column, value = change
    (before,) = store.database.read(f"SELECT {column} FROM audit WHERE seq = :seq", {"seq": seq})[0]
    found = after(store, (f"UPDATE audit SET {column} = :value WHERE seq = :seq", {"value": value, "seq": seq}))
    if value == before:
        assert isinstance(found, Head)
    else:
        assert isinstance(found, BrokenLink) and found.seq == seq


@given(seq=sequence)
@hypothesis_settings
def test_a_removed_row_is_found_where_it_was(store: Store, seq: int) -> None:
    kept = head(store.database.read)
    found = after(store, ("DELETE FROM audit WHERE seq = :seq", {"seq": seq}), kept=kept)
    assert isinstance(found, BrokenLink) and found.seq == seq


@given(seq=sequence)
@hypothesis_settings
def test_a_removed_row_is_found_though_the_others_close_up(store: Store, seq: int) -> None:
    statements = [("DELETE FROM audit WHERE seq = :seq", {"seq": seq})]
    statements += [("UPDATE audit SET seq = :seq - 1 WHERE seq = :seq", {"seq": n}) for n in range(seq + 1, ROWS + 1)]
    found = after(store, *statements, kept=head(store.database.read))
    assert isinstance(found, BrokenLink) and found.seq == seq


@given(pair=st.tuples(sequence, sequence).filter(lambda pair: pair[0] < pair[1]))
@hypothesis_settings
def test_two_rows_that_changed_places_are_found_at_the_first(store: Store, pair: tuple[int, int]) -> None:
    move = "UPDATE audit SET seq = :to WHERE seq = :from"
    moves = [(pair[0], 1000), (pair[1], pair[0]), (1000, pair[1])]
    found = after(store, *((move, {"from": old, "to": new}) for old, new in moves))
    assert isinstance(found, BrokenLink) and found.seq == pair[0]


@given(end=st.integers(0, ROWS - 1))
@hypothesis_settings
def test_a_missing_tail_is_found_by_the_stored_head(store: Store, end: int) -> None:
    cut = ("DELETE FROM audit WHERE seq > :end", {"end": end})
    assert after(store, cut) == BrokenLink(end + 1, f"is missing: the stored head was taken at entry {ROWS}")


@given(end=st.integers(0, ROWS - 1))
@hypothesis_settings
def test_a_missing_tail_and_a_forged_head_are_found(store: Store, end: int) -> None:
    cut = ("DELETE FROM audit WHERE seq > :end", {"end": end})
    links = store.database.read("SELECT hash FROM audit WHERE seq = :end", {"end": end})
    forged = RowProofs(bytes(32)).signed_head(end, links[0].hash if links else bytes(32))
    for stored in (None, b"", forged):
        found = after(store, cut, ("UPDATE clock SET audit_head = :stored", {"stored": stored}))
        assert found == BrokenLink(end + 1, "may be missing: the stored head was removed or changed")


@given(end=st.integers(0, ROWS - 1))
@hypothesis_settings
def test_a_tail_that_is_missing_with_its_old_head_is_found_by_a_head_kept_elsewhere(store: Store, end: int) -> None:
    cut = ("DELETE FROM audit WHERE seq > :end", {"end": end})
    links = store.database.read("SELECT hash FROM audit WHERE seq = :end", {"end": end})
    old = store.vault.proofs.signed_head(end, links[0].hash if links else bytes(32))
    put_back = ("UPDATE clock SET audit_head = :old", {"old": old})
    assert isinstance(after(store, cut, put_back), Head)
    found = after(store, cut, put_back, kept=head(store.database.read))
    assert found == BrokenLink(end + 1, f"is missing: the given head was taken at entry {ROWS}")


def test_a_chain_that_was_written_anew_is_found_with_a_head_from_before(store: Store) -> None:
    """Whoever holds the key can write another chain, but not one that passes through an old head."""
    kept = head(store.database.read)
    with undone(store) as transaction:
        transaction.execute("DELETE FROM audit")
        transaction.chain_end = EMPTY
        for number in range(ROWS + 2):
            append(AuditLog(store.vault), transaction, number + 100)
        transaction.execute("UPDATE clock SET audit_head = :head", {"head": transaction.audit_head})
        assert isinstance(verify(reading(transaction), store.vault), Head)
        found = verify(reading(transaction), store.vault, kept)
        assert found == BrokenLink(ROWS, "differs from the entry that the given head was taken from")


def test_text_that_became_bytes_is_a_change(store: Store) -> None:
    """JSON spells both alike: `YWJj` is how it writes the bytes abc."""
    with undone(store) as transaction:
        AuditLog(store.vault).append(transaction, [AuditEntry(0, "YWJj", "a", "r")])
        transaction.execute("UPDATE audit SET actor = :bytes WHERE seq = :seq", {"bytes": b"abc", "seq": ROWS + 1})
        assert verify(reading(transaction), store.vault) == BrokenLink(ROWS + 1, "was changed")


def test_another_key_breaks_the_first_link(store: Store) -> None:
    missing = after(store, ("DELETE FROM audit_keys", {}))
    assert missing == BrokenLink(1, "cannot be checked: the audit key is missing or does not open")
    damaged = after(store, ("UPDATE audit_keys SET sealed_key = x'0100000001'", {}))
    assert damaged == missing


def test_what_cannot_be_recorded_is_not_done(store: Store) -> None:
    with undone(store) as transaction:
        transaction.execute("UPDATE audit_keys SET sealed_key = x'0100000001'")
        with pytest.raises(ServerFailure, match="cannot be recorded in the audit log"):
            append(AuditLog(store.vault), transaction, 1)


def test_a_step_that_is_undone_leaves_no_row_and_no_key(home: Path) -> None:
    with opened(home) as store, store.database.transaction() as transaction:
        log = AuditLog(store.vault)
        with pytest.raises(Undone), transaction.step():
            append(log, transaction, 1)
            raise Undone
        append(log, transaction, 2)
        append(log, transaction, 3)
        found = verify(reading(transaction), store.vault)
        assert isinstance(found, Head) and found.seq == 2


def test_a_first_transaction_that_is_undone_leaves_no_key_behind(home: Path) -> None:
    with opened(home) as store:
        log = AuditLog(store.vault)
        with undone(store) as transaction:
            append(log, transaction, 1)
            append(log, transaction, 2)
        with store.database.transaction() as transaction:
            append(log, transaction, 3)
        assert after(store) == head(store.database.read)


def test_two_processes_write_one_chain(home: Path) -> None:
    with opened(home) as one, opened(home) as two:
        logs = [(one, AuditLog(one.vault)), (two, AuditLog(two.vault))]
        for number in range(6):
            store, log = logs[number % 2]
            with store.database.transaction() as transaction:
                append(log, transaction, number)
        with one.database.snapshot():
            found = verify(one.database.stream, two.vault)
        assert isinstance(found, Head) and found.seq == 6


def test_the_chain_holds_after_the_keys_were_rotated(home: Path) -> None:
    with opened(home) as store:
        log = AuditLog(store.vault)
        with store.database.transaction() as transaction:
            append(log, transaction, 1)
        rotation = Rotation(store, EVERY_PROOF)
        rotation.begin(0, "cli:root")
        list(rotation.batches())
        assert rotation.finish().retired == 1
        with store.database.transaction() as transaction:
            append(log, transaction, 2)
        with store.database.snapshot():
            found = verify(store.database.stream, store.vault)
        assert isinstance(found, Head) and found.seq == 3
        rows = store.database.read("SELECT actor, action FROM audit ORDER BY seq")
        assert rows[1] == ("cli:root", "key.rotated")


@pytest.mark.parametrize("text", ["", "3", "3:", "x:" + "0" * 64, "3:" + "0" * 63, "3:" + "G" * 64])
def test_what_is_no_head(text: str) -> None:
    assert read_head(text) is None


def test_an_empty_log_has_a_head_too(home: Path) -> None:
    with opened(home) as store:
        with store.database.snapshot():
            assert verify(store.database.stream, store.vault, EMPTY) == EMPTY
        assert str(head(store.database.read)) == "0:" + "0" * 64


def test_facts_tell_what_differs_and_no_secret() -> None:
    before = {"name": "a", "key": secret_fact(b"sealed 1"), "url": Hidden("https://h/k1", "https://h"), "same": 1}
    after = {"name": "b", "key": secret_fact(b"sealed 2"), "url": Hidden("https://h/k2", "https://h"), "same": 1}
    assert difference(before, after) == (
        '{"name":"a","key":"set","url":"https://h"}',
        '{"name":"b","key":"changed","url":"changed"}',
    )
    assert difference(before, before | {"key": secret_fact(None)}) == ('{"key":"set"}', '{"key":null}')
    assert difference(before, dict(before)) == ("{}", "{}")
    assert to_json(before) == '{"name":"a","key":"set","url":"https://h","same":1}'
