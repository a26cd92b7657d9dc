"""Bugs on purpose, each a small change of the code in one process: the exploration must find every one of them."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.proofs.explore.boundary import Fault


class Bug(NamedTuple):
    plant: Callable[[], None]
    operation: str  # that it is looked for with
    kind: str  # of the faults
    found_as: str  # part of the problem that is reported
    first: int = 1  # the call that fails first
    engine: str = "SQLite"


def _answer_before_sync() -> None:
    from relaydeck.store.sqlite import SqliteTransaction

    commit = SqliteTransaction.commit

    def commit_later(self: SqliteTransaction) -> None:
        def later() -> None:
            time.sleep(0.05)  # the answer overtakes the commit
            commit(self)

        threading.Thread(target=later).start()

    SqliteTransaction.commit = commit_later  # type: ignore[method-assign]


def _swallow_a_failed_commit() -> None:
    from relaydeck.store.sqlite import SqliteTransaction

    commit = SqliteTransaction.commit

    def commit_anyway(self: SqliteTransaction) -> None:
        try:
            commit(self)
        except BaseException as error:
            print(f"ignored: {type(error).__name__}")

    SqliteTransaction.commit = commit_anyway  # type: ignore[method-assign]


def _forget_the_signal_of_a_write() -> None:
    from relaydeck.store.write_signal import WriteSignal

    WriteSignal.send = lambda self, *, of_tokens: None  # type: ignore[method-assign]


def _drop_the_audit_entry_of_a_second_attempt() -> None:
    from relaydeck.store.audit import AuditEntry, AuditLog

    append = AuditLog.append
    seen: set[tuple[str, str]] = set()

    def append_first(self: AuditLog, transaction: Any, entries: Sequence[AuditEntry]) -> None:
        new = [each for each in entries if (each.action, each.record) not in seen]
        seen.update((each.action, each.record) for each in entries)
        append(self, transaction, new)

    AuditLog.append = append_first  # type: ignore[method-assign]


def _reuse_a_nonce() -> None:
    from types import SimpleNamespace

    from relaydeck.store import sealing

    sealing.os = SimpleNamespace(urandom=lambda count: b"twelve bytes"[:count])  # type: ignore[assignment, attr-defined]


def _skip_the_second_check_of_the_token() -> None:
    from relaydeck.credentials.token_cache import TokenCache

    TokenCache.refusal = lambda self, transaction, caller, now: None  # type: ignore[method-assign]


def _commit_a_revision_twice() -> None:
    from relaydeck.store import sqlite

    sqlite._END = sqlite._END.replace("revision = ?", "revision = ? - 1")


def _leave_a_secret_in_an_error() -> None:
    from relaydeck.errors import ServerFailure
    from relaydeck.store import writer
    from relaydeck.store.sealing import Keyring, Place

    seal, sealed = Keyring.seal, [b""]

    def seal_and_keep(self: Keyring, plain: bytes, place: Place) -> bytes:
        sealed[0] = plain
        return seal(self, plain, place)

    def all_failed(error: BaseException, count: int) -> list[Any]:
        return [ServerFailure(f"{error} while this was written: {sealed[0].decode()}")] * count

    Keyring.seal = seal_and_keep  # type: ignore[method-assign]
    writer._all_failed = all_failed


def _forget_the_delivery_of_an_event() -> None:
    from relaydeck.notifications import delivery_queue

    delivery_queue.add = lambda transaction, sequence, notification_id, relayer_id: None


def _forget_an_idempotent_response() -> None:
    from relaydeck.admin import idempotency

    idempotency._keep = lambda context, scope, kept, key: None


def _leave_a_failed_transaction_open() -> None:
    from relaydeck.store import sqlite

    @contextmanager
    def translated(connection: Any) -> Iterator[None]:
        with sqlite._translate_errors():
            yield

    sqlite._rolled_back_on_error = translated


def _retire_a_key_that_is_in_use() -> None:
    from relaydeck.store import rotation

    rotation._values_under = lambda transaction, key_id: []
    kept = tuple(each for each in rotation.SEALED_COLUMNS if each.table != "signers")  # type: ignore[attr-defined]
    rotation.SEALED_COLUMNS = kept  # type: ignore[assignment, attr-defined]


def _skip_the_fence() -> None:
    from relaydeck.scheduling.leases import ShardLeases

    ShardLeases.protected = lambda self, transaction, sequences: set(sequences)  # type: ignore[method-assign]


def _release_a_lease_late() -> None:
    """Whoever holds it by now."""
    from relaydeck.scheduling.leases import ShardLeases

    def free(self: ShardLeases, fences: Any, gaps: Any, transaction: Any) -> None:
        for shard in fences:
            transaction.execute(
                "UPDATE leases SET expires_at = 0, holder = '' WHERE name = :name", {"name": self._row(shard)}
            )

    ShardLeases._free = free  # type: ignore[method-assign]


def _repeat_an_unconfirmed_write() -> None:
    """Without a look whether it was stored."""
    from relaydeck.errors import StoreTrouble
    from relaydeck.store.postgres import PostgresDatabase
    from relaydeck.store.writer import Writer

    commit = Writer._commit

    def confirm(self: PostgresDatabase, transaction: Any, trouble: StoreTrouble) -> None:
        raise trouble

    def commit_again(self: Writer, *group: Any) -> list[Any]:
        try:
            return commit(self, *group)
        except StoreTrouble:
            return commit(self, *group)

    PostgresDatabase._confirm = confirm  # type: ignore[method-assign]
    Writer._commit = commit_again  # type: ignore[assignment, method-assign]


def _take_silence_for_a_commit() -> None:
    from relaydeck.store.postgres import PostgresDatabase

    PostgresDatabase._confirm = lambda self, transaction, trouble: None  # type: ignore[method-assign]


_LATE_ROUND = "monitor round while another process takes over"
_LATE_DELIVERY = "deliver events while another process takes over"

BUGS: dict[str, Bug] = {
    "answer before the sync": Bug(_answer_before_sync, "create signer", "hang", "acknowledged, but"),
    "swallow a failed commit": Bug(_swallow_a_failed_commit, "create signer", "error", "acknowledged, but"),
    "forget the signal of a write": Bug(_forget_the_signal_of_a_write, "create signer", "hang", "another worker lists"),
    "forget the signal of a revoked token": Bug(
        _forget_the_signal_of_a_write, "revoke token", "hang", "another worker judges a token"
    ),
    "drop the audit entry of a second attempt": Bug(
        _drop_the_audit_entry_of_a_second_attempt, "change network", "error", "the database differs: audit"
    ),
    "reuse a nonce": Bug(_reuse_a_nonce, "create signer (admin)", "error", "the same key and nonce"),
    "skip the second check of the token": Bug(
        _skip_the_second_check_of_the_token, "update while the token is revoked", "hang", "after its token was revoked"
    ),
    "commit a revision twice": Bug(_commit_a_revision_twice, "create signer", "hang", "revision"),
    "leave a secret in an error": Bug(
        _leave_a_secret_in_an_error, "create signer", "error", "the output contains a secret"
    ),
    "forget the delivery of an event": Bug(
        _forget_the_delivery_of_an_event, "test notification", "hang", "has a receiver, but no delivery"
    ),
    "forget an idempotent response": Bug(
        _forget_an_idempotent_response, "create token", "hang", "the database differs: idempotency_keys"
    ),
    "leave a failed transaction open": Bug(
        _leave_a_failed_transaction_open, "create signer", "error", "the next attempt was answered 500"
    ),
    "retire a key that is in use": Bug(_retire_a_key_that_is_in_use, "key rotate", "hang", "a sealed value is damaged"),
    "skip the fence of a round": Bug(
        _skip_the_fence, _LATE_ROUND, "hang", "saved after another process took over", first=16
    ),
    "skip the fence of a delivery": Bug(
        _skip_the_fence, _LATE_DELIVERY, "hang", "saved after another process took over", first=18
    ),
    "release a lease late": Bug(
        _release_a_lease_late, _LATE_DELIVERY, "hang", "the lease of another process", first=52
    ),
    "repeat an unconfirmed write": Bug(
        _repeat_an_unconfirmed_write, "create signer", "lost", "answered 409", engine="PostgreSQL"
    ),
    "take silence for a commit": Bug(
        _take_silence_for_a_commit, "create signer", "silence", "acknowledged, but", engine="PostgreSQL"
    ),
}


def plant(name: str) -> None:
    if name:
        BUGS[name].plant()


def faults(bug: Bug, most: int) -> Iterator[Fault]:
    return (Fault(number, bug.kind) for number in range(bug.first, bug.first + most))
