"""What a token grants: stored as its kind, proven with its row, and unusable for a version that does not know it."""

import time
from pathlib import Path

import pytest

from relaydeck.credential import Limits
from relaydeck.credentials import tokens
from relaydeck.credentials.console_sessions import SessionLimits, find_session, new_session_secret, open_session
from relaydeck.credentials.grants import FIRST_KINDS, Grant, read_grant
from relaydeck.credentials.token_cache import TokenCredential
from relaydeck.credentials.tokens import digest_of
from relaydeck.roles import Role, permissions_of
from relaydeck.scope import Scope
from relaydeck.settings.values import address_ranges
from relaydeck.store.audit import AuditLog
from tests.support.seeding import issue, opened

LIMITED = Grant(role="editor", scope=Scope(labels={"team": "payments"}), addresses=("10.0.0.0/8",), rate=50)


def test_a_role_without_limits_is_stored_as_before() -> None:
    assert [Grant(role=each).stored for each in FIRST_KINDS] == list(FIRST_KINDS)
    assert {each for each in Role if each.value in FIRST_KINDS} == {Role.API, Role.READONLY, Role.ADMIN}


@pytest.mark.parametrize(
    "grant",
    [
        LIMITED,
        Grant(role="api", rate=5, burst=7),
        Grant(role="api", addresses=("::1",)),
        Grant(role="admin", addresses=("10.0.0.1",)),
        Grant(role="viewer", approve=True),
        Grant(role="readonly", scope=Scope(relayers=("a b", "ü"))),
    ],
)
def test_a_limited_one_is_stored_whole_as_a_kind_that_earlier_versions_do_not_know(grant: Grant) -> None:
    assert read_grant(grant.stored) == grant
    assert (grant.stored in FIRST_KINDS, permissions_of(grant.stored)) == (False, frozenset())


@pytest.mark.parametrize("kind", ["auditor", 'api {"later":1}', "api {", "api []", 'api {"scope":{}}'])
def test_what_only_a_newer_version_can_read_grants_nothing(kind: str) -> None:
    assert read_grant(kind).permissions == frozenset()


def test_a_restriction_adds_no_role() -> None:
    assert read_grant('api {"role":"owner"}') == Grant(role="api")


def test_its_limits() -> None:
    assert LIMITED.limits == Limits(address_ranges("10.0.0.0/8"), 50, 50)
    assert (Grant(role="api").limits, Grant(role="editor", scope=Scope(networks=("n",))).limits) == (None, None)
    admitted = {each: Limits(address_ranges("10.0.0.0/8")).admits(each) for each in ("10.1.2.3", "11.0.0.1", "-", "")}
    assert admitted == {"10.1.2.3": True, "11.0.0.1": False, "-": False, "": False}
    assert Limits(address_ranges("10.0.0.0/8")).admits("::ffff:10.0.0.1") is True


@pytest.mark.parametrize(
    ("grant", "problem"),
    [
        (Grant(role="api", burst=5), "burst needs a rate"),
        (Grant(role="owner", scope=Scope(networks=("n",))), "scope cannot limit an owner, who decides"),
        (Grant(role="api", scope=Scope()), "scope must give relayers, networks or labels"),
        (Grant(role="api", addresses=("localhost",)), "addresses must be addresses such as"),
        (LIMITED, ""),
    ],
)
def test_what_is_refused(grant: Grant, problem: str) -> None:
    assert grant.problem.startswith(problem) and bool(grant.problem) == bool(problem)


@pytest.mark.parametrize("kind", sorted(FIRST_KINDS))
def test_the_row_of_a_token_without_limits_is_proven_as_before(home: Path, kind: str) -> None:
    """So both versions accept what either of them wrote."""
    token = issue(home, "ci", kind)
    with opened(home) as store:
        found = tokens.find(store.database.read, digest_of(token.encode()))
        assert found is not None
        row = found.name, kind, found.digest, found.created_at, None, None
        assert store.vault.proofs.holds(found.proof, "tokens", row)
        assert TokenCredential(found, "token:a").permissions == permissions_of(kind)
        assert (TokenCredential(found, "token:a").scope, TokenCredential(found, "token:a").limits) == (None, None)


def test_whoever_writes_to_the_database_cannot_widen_a_token(home: Path) -> None:
    token = issue(home, "ci", LIMITED.stored)
    digest = digest_of(token.encode())
    with opened(home) as store:
        proofs, read = store.vault.proofs, store.database.read
        found = tokens.find(read, digest)
        assert found is not None and found.is_authentic(proofs) and found.grant == LIMITED
        for kind in ("editor", "owner", Grant(role="editor").stored, LIMITED.stored.replace("payments", "other")):
            with store.database.transaction() as transaction:
                transaction.execute("UPDATE tokens SET kind = :kind", {"kind": kind})
            widened = tokens.find(read, digest)
            assert widened is not None and not widened.is_authentic(proofs)


@pytest.mark.parametrize(("kind", "is_known"), [("readonly", True), (Grant(role="readonly", rate=5).stored, False)])
def test_a_session_of_a_limited_token_is_unknown_to_earlier_versions(home: Path, kind: str, is_known: bool) -> None:
    token, secret, limits, now = issue(home, "ci", kind), new_session_secret(), SessionLimits(60, 60), time.time()
    with opened(home) as store:
        found = tokens.find(store.database.read, digest_of(token.encode()))
        assert found is not None
        with store.database.transaction() as transaction:
            open_session(transaction, AuditLog(store.vault), secret, found.seq, limits, now)
        (row,) = store.database.read("SELECT digest, created_at, used_at, proof FROM console_sessions", {})
        as_before = row.digest, found.digest, row.created_at, row.used_at
        assert store.vault.proofs.holds(row.proof, "console_sessions", as_before) is is_known
        session = find_session(store.database.read, store.vault.proofs, secret, limits, now)
        assert session is not None and session.grant == read_grant(kind)


def test_uses_are_stored_beside_what_is_proven(home: Path) -> None:
    token = issue(home, "ci", LIMITED.stored)
    with opened(home) as store:
        for uses in ([("ci", 120, "api 10.0.0.1"), ("unknown", 120, "api 10.0.0.1")], [("ci", 60, "api 10.0.0.2")]):
            with store.database.transaction() as transaction:
                tokens.store_uses(transaction, uses)
        found = tokens.find(store.database.read, digest_of(token.encode()))
        assert found is not None and found.is_authentic(store.vault.proofs)
        assert tokens.last_uses(store.database) == {found.seq: (120, "api 10.0.0.1")}
