"""A new master key comes into use, while others read and write, and after a stop at any step."""

import itertools
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag

from relaydeck.credentials import console_sessions, people, tokens
from relaydeck.credentials.console_sessions import SessionLimits
from relaydeck.credentials.grants import Grant
from relaydeck.credentials.people import EVERY_PROOF
from relaydeck.credentials.tokens import new_token
from relaydeck.doctor.integrity import verify_chain
from relaydeck.errors import OperatorError, ServerFailure
from relaydeck.roles import Role
from relaydeck.secret import Secret
from relaydeck.store.audit import AuditEntry, AuditLog, head
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import without_progress
from relaydeck.store.open_store import Store, open_store_at
from relaydeck.store.rotation import Rotation
from relaydeck.store.sealing import RowProofs
from relaydeck.store.vault import MasterKey, open_keys, read_master_keys, write_master_keys
from tests.store.test_rotation import add_signers, opened, secrets
from tests.support.places import place_of

NOW = 1_900_000_000
LIMITS = SessionLimits(3600, 7200)
NEW = MasterKey(b"n" * 32)
SESSION, PERSON = Secret("a session"), Secret("p-a person")


class Scene:
    """A database with a row of each kind that has a proof, and one that was forged."""

    def __init__(self, home: Path) -> None:
        self.store, self.path = opened(home), home / "master.key"
        (self.old,) = read_master_keys(self.path)
        add_signers(self.store, "a", "b")
        with self.store.database.transaction() as transaction:
            context = ChangeContext(transaction, AuditLog(self.store.vault), "cli:me", NOW)
            tokens.issue(context._replace(actor="person:ann"), "ci", Grant(role=Role.ADMIN), new_token())
            tokens.issue(context, "old", Grant(role=Role.API), new_token())
            tokens.issue(context, "forged", Grant(role=Role.API), new_token())
            console_sessions.open_session(transaction, context.audit, SESSION, 1, LIMITS, NOW)
            self.code = console_sessions.issue_code(context, "ci")
            person = people.Person("dex", "subject", "ann", "admin", "a rule")
            session = people.PersonSession(person, console_sessions.session_digest(PERSON), NOW, NOW, NOW, None)
            people.store(transaction, context.audit, session, LIMITS, NOW)
            (row,) = transaction.all("SELECT * FROM tokens WHERE name = 'old'")
            values = [
                getattr(row, name) for name in ("name", "kind", "digest", "created_at", "expires_at", "revoked_at")
            ]
            migrated = self.store.vault.proofs.of("tokens as a migration found them", values)
            transaction.execute("UPDATE tokens SET proof = :proof WHERE name = 'old'", {"proof": migrated})
            transaction.execute("UPDATE tokens SET proof = :proof WHERE name = 'forged'", {"proof": bytes(32)})

    def accepted(self, store: Store) -> list[str]:
        """What holds, as a process with this store sees it."""
        read, proofs = store.database.read, store.vault.proofs
        stored = tokens.all_tokens(store.database)
        found = [each.name for each in stored if each.is_authentic(proofs)]
        found += ["migrated"] * len(tokens.migrated_tokens(store.database, proofs))
        found += ["maker"] * any(each.actor(proofs) == "person:ann via token:ci" for each in stored)
        found += ["session"] * bool(console_sessions.find_session(read, proofs, SESSION, LIMITS, NOW + 1))
        found += ["person"] * bool(people.find(read, proofs, PERSON, LIMITS, NOW + 1))
        code = read(
            "SELECT c.digest, c.expires_at, c.proof, t.digest AS token FROM console_codes c JOIN tokens t"
            " ON t.seq = c.token_seq"
        )
        found += ["code"] * sum(
            proofs.holds(each.proof, "console_codes", (each.digest, each.token, each.expires_at)) for each in code
        )
        return found


EVERYTHING = ["ci", "old", "migrated", "maker", "session", "person", "code"]


@pytest.fixture
def scene(home: Path) -> Iterator[Scene]:
    made = Scene(home)
    with closing(made.store):
        yield made


def steps(scene: Scene, store: Store) -> Iterator[None]:
    """A rotation that can be stopped after each of its transactions."""
    rotation = Rotation(store, EVERY_PROOF)
    rotation.begin(NOW, "cli:me", NEW)
    yield
    for _ in rotation.batches(rows=1):
        yield
    rotation.finish()
    yield


def replaced(scene: Scene) -> None:
    with closing(opened(scene.path.parent)) as store:
        for _ in steps(scene, store):
            pass
    write_master_keys(scene.path, [NEW])


def write(store: Store, number: int) -> None:
    """What a service does: an entry, a secret, a token and a request of a session."""
    add_signers(store, f"new-{number}")
    with store.database.transaction() as transaction:
        context = ChangeContext(transaction, AuditLog(store.vault), "api", NOW)
        context.performed("signer.created", f"new-{number}")
        tokens.issue(context, f"token-{number}", Grant(role=Role.API), new_token())
        found = console_sessions.find_session(transaction.all, store.vault.proofs, SESSION, LIMITS, NOW + 1)
        assert found is not None
        console_sessions.touch_session(transaction, store.vault.proofs, SESSION, found, NOW + 1)


def test_every_table_with_proofs_is_known(scene: Scene) -> None:
    """A migration that adds one must be followed in `EVERY_PROOF`."""
    tables = scene.store.database.tables()
    assert {each.name for each in tables if "proof" in each.column_names} == {each.table for each in EVERY_PROOF}


def test_a_service_reads_and_writes_at_every_step_and_notices_nothing(scene: Scene) -> None:
    home = scene.path.parent
    with closing(opened(home)) as service, closing(opened(home)) as reader, closing(opened(home)) as command:
        write_master_keys(scene.path, [NEW, scene.old])
        count = 0
        for count, _ in enumerate(steps(scene, command), 1):
            assert scene.accepted(reader)[:2] == ["ci", "old"]
            write(service, count)
            assert {"session", "person", "code", "migrated"} < set(scene.accepted(service))
        write_master_keys(scene.path, [NEW])
        write(service, 0)
        assert count > 10
        assert {f"token-{number}" for number in range(count + 1)} < set(scene.accepted(reader))
        assert secrets(reader) == {name: f"secret of {name}" for name in secrets(service)}
        with reader.database.snapshot():
            found = verify_chain(reader.database, reader.vault, without_progress)
        assert str(found) == str(head(reader.database.read))


def test_afterwards_the_new_key_opens_and_proves_everything_and_the_old_one_nothing(scene: Scene) -> None:
    write_master_keys(scene.path, [NEW, scene.old])
    replaced(scene)
    with closing(opened(scene.path.parent)) as store:
        assert scene.accepted(store) == EVERYTHING
        assert secrets(store) == {"a": "secret of a", "b": "secret of b"}
        for row in store.database.read("SELECT wrapped FROM data_keys"):
            with pytest.raises(InvalidTag):
                scene.old.unwrap(row.wrapped)
        before = RowProofs(scene.old.proof_key)
        proofs = store.database.read(
            "SELECT proof FROM tokens UNION ALL SELECT proof FROM console_sessions UNION ALL SELECT proof FROM"
            " console_codes UNION ALL SELECT proof FROM person_sessions"
        )
        assert len(proofs) == 6
        head = store.database.read("SELECT audit_head FROM clock")[0].audit_head
        assert (before.stored_head(head), store.vault.proofs.stored_head(head) is None) == (None, False)
        stored = tokens.all_tokens(store.database)
        assert [each.name for each in stored if each.is_authentic(before)] == []
        assert [each.name for each in stored if not each.is_authentic(store.vault.proofs)] == ["forged"]


@pytest.mark.parametrize("stopped_after", range(13))
def test_a_rotation_that_was_stopped_is_continued(scene: Scene, stopped_after: int) -> None:
    write_master_keys(scene.path, [NEW, scene.old])
    with closing(opened(scene.path.parent)) as command:
        for _ in itertools.islice(steps(scene, command), stopped_after):
            pass
    with closing(opened(scene.path.parent)) as store:  # needs both keys
        assert scene.accepted(store) == EVERYTHING
    replaced(scene)
    with closing(opened(scene.path.parent)) as store:
        assert scene.accepted(store) == EVERYTHING
        assert secrets(store) == {"a": "secret of a", "b": "secret of b"}
        rows = store.database.read("SELECT record FROM audit WHERE action = 'key.rotated'")
        assert rows == [("master key",)]


def test_a_service_stops_trusting_the_old_key_when_the_rotation_has_ended(scene: Scene) -> None:
    with closing(opened(scene.path.parent)) as service:
        write_master_keys(scene.path, [NEW, scene.old])
        with closing(opened(scene.path.parent)) as command:
            next(steps(scene, command))
        assert service.vault.look_again()
        assert service.vault.proofs.has_older
        replaced(scene)
        write(service, 1)
        assert service.vault.look_again()
        forged = RowProofs(scene.old.proof_key).of("tokens", ("x",))
        assert not service.vault.proofs.holds(forged, "tokens", ("x",))


def test_a_service_with_the_old_key_alone_writes_nothing_and_says_why(scene: Scene) -> None:
    own = scene.path.with_name("own.key")
    own.write_text(scene.path.read_text())
    home = scene.path.parent
    with closing(open_store_at(home, place_of(home), own)) as service:
        write_master_keys(scene.path, [NEW, scene.old])
        replaced(scene)
        with pytest.raises(ServerFailure) as failure, service.database.transaction() as transaction:
            AuditLog(service.vault).append(transaction, [AuditEntry(NOW, "api", "signer.created", "x")])
        assert failure.value.reason == (
            "nothing can be written: the master key does not open this database's keyring; see the log"
        )
        with pytest.raises(OperatorError, match="does not open this database's keyring"):
            service.vault.look_again()
        own.write_text(scene.path.read_text())  # the operator follows the remedy
        write(service, 1)
        assert scene.accepted(service) == [*EVERYTHING[:2], "token-1", *EVERYTHING[2:]]


def test_a_service_goes_on_while_the_file_cannot_be_read(scene: Scene) -> None:
    with closing(opened(scene.path.parent)) as service:
        text = scene.path.read_text()
        os.unlink(scene.path)
        with pytest.raises(OperatorError):
            read_master_keys(scene.path)
        assert not service.vault.look_again()
        write(service, 1)
        scene.path.write_text(text)


def test_a_data_key_under_a_removed_master_key_is_not_accepted(scene: Scene) -> None:
    """The old key may be in wrong hands: a data key of theirs must not come into use."""
    write_master_keys(scene.path, [NEW, scene.old])
    replaced(scene)
    with closing(opened(scene.path.parent)) as service:
        with service.database.transaction() as transaction:
            service.vault.add_data_key(transaction, NOW, scene.old)
        with pytest.raises(ServerFailure):
            write(service, 1)


def test_what_is_damaged_keeps_its_data_key_but_not_the_old_master_key(scene: Scene) -> None:
    with scene.store.database.transaction() as transaction:
        transaction.execute("UPDATE signers SET secret_version = 99 WHERE id = 'a'")
    write_master_keys(scene.path, [NEW, scene.old])
    replaced(scene)
    with closing(opened(scene.path.parent)) as store:
        rows = store.database.read("SELECT id, wrapped FROM data_keys ORDER BY id")
        keys = open_keys([NEW], rows)
        assert ([row.id for row in rows], keys.older) == ([1, 2], [])
