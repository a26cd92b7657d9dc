"""The person behind a token: named in the audit log, found by filters, and not to be forged by a change of a row."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relaydeck.api.list_filters import FILTERS, conditions
from relaydeck.credential import names_in
from relaydeck.credentials.grants import Grant
from relaydeck.credentials.token_cache import TokenCache
from relaydeck.credentials.tokens import (
    MADE_BY_ANOTHER,
    Token,
    all_tokens,
    doubted_tokens,
    find_named,
    issue_new,
    may_approve,
    rotate,
)
from relaydeck.errors import NotPossible
from relaydeck.roles import Role
from relaydeck.store.audit import AuditEntry, AuditLog
from relaydeck.store.changes import ChangeContext
from relaydeck.store.open_store import Store
from tests.support.places import ENGINES
from tests.support.seeding import opened

ALICE, NOW = "person:alice@example.com", 1_000


def made(store: Store, maker: str, name: str) -> str:
    with store.database.transaction() as transaction:
        context = ChangeContext(transaction, AuditLog(store.vault), maker, NOW)
        return issue_new(context, name, Grant(role=Role.EDITOR), None).reveal()


def token(store: Store, name: str) -> Token:
    found = find_named(store.database.read, name)
    assert found is not None
    return found


def actors(store: Store) -> dict[str, str]:
    return {each.name: each.actor(store.vault.proofs) for each in all_tokens(store.database)}


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with opened(home) as store:
        yield store


def test_a_token_names_the_person_behind_it(store: Store) -> None:
    for maker, name in (
        (ALICE, "ci"),
        (f"{ALICE} via token:ci", "deploy"),
        ("token:root", "app"),
        ("cli:local", "root"),
    ):
        made(store, maker, name)
    assert actors(store) == {
        "ci": f"{ALICE} via token:ci",
        "deploy": f"{ALICE} via token:deploy",
        "app": "token:app",
        "root": "token:root",
    }


def test_requests_act_in_the_name_of_both_and_a_rotated_token_in_that_of_who_rotated_it(store: Store) -> None:
    secret = made(store, ALICE, "ci")
    cache = TokenCache(store.vault.proofs, lambda _: None)
    cache.replace(cache.read_all(store.database))
    assert cache.find(f"Bearer {secret}".encode(), NOW).actor == f"{ALICE} via token:ci"
    with store.database.transaction() as transaction:
        rotate(ChangeContext(transaction, AuditLog(store.vault), "token:root", NOW + 1), "ci", 60)
    old = "ci (issued 1970-01-01T00:16:40Z)"
    assert actors(store) == {"ci": "token:ci", old: f"{ALICE} via token:{old}"}


@pytest.mark.parametrize(
    "change",
    [
        "made_by = 'person:bob'",
        "made_by = 'person:bob', made_by_proof = NULL",
        "made_by = NULL",
        "made_by_proof = NULL",
    ],
)
def test_a_change_of_a_row_names_nobody_else(store: Store, change: str) -> None:
    made(store, ALICE, "ci")
    with store.database.transaction() as transaction:
        transaction.execute(f"UPDATE tokens SET {change}", {})
    assert actors(store) == {"ci": "token:ci"}
    assert token(store, "ci").is_authentic(store.vault.proofs), "as versions without the second proof see the row"
    doubted = [] if change == "made_by_proof = NULL" else [("ci", MADE_BY_ANOTHER)]
    assert list(doubted_tokens(store.database)) == doubted


def test_the_proof_of_one_token_does_not_name_the_maker_of_another(store: Store) -> None:
    made(store, ALICE, "ci")
    made(store, "token:root", "app")
    with store.database.transaction() as transaction:
        transaction.execute(
            "UPDATE tokens SET made_by = :maker, made_by_proof = :proof WHERE name = 'app'",
            {"maker": ALICE, "proof": token(store, "ci").made_by_proof},
        )
    assert actors(store) == {"ci": f"{ALICE} via token:ci", "app": "token:app"}
    assert list(doubted_tokens(store.database)) == [("app", MADE_BY_ANOTHER)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("actor", "found"),
    [
        (ALICE, [1, 2]),
        (f"{ALICE} via token:ci", [2]),
        ("token:ci", [2, 3]),
        ("person:alice", []),
        ("ci", []),
        ("%", []),
    ],
)
def test_a_filter_finds_a_person_and_their_tokens(
    home: Path, lend: Callable[[Path, str], Path], engine: str, actor: str, found: list[int]
) -> None:
    everyone = [ALICE, f"{ALICE} via token:ci", "token:ci", "token:c"]
    with opened(lend(home, engine)) as store:
        with store.database.transaction() as transaction:
            entries = [AuditEntry(NOW, each, "signer.created", "one") for each in everyone]
            AuditLog(store.vault).append(transaction, entries)
        condition, values = conditions(FILTERS["audit"], {"actor": actor})
        rows = store.database.read(f"SELECT seq FROM audit WHERE {condition} ORDER BY seq", values)
    assert [row.seq for row in rows] == found


def test_an_actor_is_one_name_or_a_person_and_a_token() -> None:
    assert names_in("token:ci") == ("token:ci",)
    assert names_in(f"{ALICE} via token:a via token:b") == (ALICE, "token:a via token:b")


@pytest.mark.parametrize("length", [3, 34, 100])
def test_a_chain_of_tokens_does_not_approve_what_its_first_proposed(store: Store, length: int) -> None:
    made(store, "cli:local", "t0")
    for number in range(1, length):
        made(store, f"token:t{number - 1}", f"t{number}")
    made(store, "cli:local", "other")
    pairs = [(f"token:t{length - 1}", "token:t0"), ("token:t0", f"token:t{length - 1}"), ("token:other", "token:t0")]
    assert [may_approve(store.database.read, *each) for each in pairs] == [False, False, True]


def test_a_name_that_is_too_long_for_that_of_an_old_secret_is_rotated_at_once(store: Store) -> None:
    """An old secret whose name is cut would be another author."""
    name = "n" * 201
    made(store, "cli:local", name)
    with store.database.transaction() as transaction:
        context = ChangeContext(transaction, AuditLog(store.vault), "cli:local", NOW)
        with pytest.raises(NotPossible) as refusal:
            rotate(context, name, 60)
        rotated = rotate(context, name, 0)
    message = "the name has more than 200 characters: rotate the token without an overlap"
    assert (refusal.value.reason, rotated and rotated[1]) == (message, "")
