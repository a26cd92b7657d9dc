"""`Idempotency-Key`: for a day, a repeated POST gets the stored response and has no further effect.

The response is stored in the transaction of the change, so neither exists without the other. Write transactions are
serialised: of two requests at the same time, one makes the change and the other gets its response. A response can
contain a new token, so it is stored encrypted, with a key that is derived from the Idempotency-Key: only a hash of
that is stored, so nobody but its sender can read the response. A refused request changes nothing and leaves its key
unused.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from relaydeck.admin.proposals import forget_expired
from relaydeck.api.operations import IDEMPOTENCY_KEY
from relaydeck.errors import BadRequest, Damaged, KeyUsedOtherwise, ServerFailure, StoreError
from relaydeck.http.pipeline import Call, Reply, written_at
from relaydeck.store.changes import ChangeContext
from relaydeck.store.database import Database, ReadRows, Transaction
from relaydeck.store.sealing import Place, decrypt, derived_key, encrypt
from relaydeck.store.writer import Writer

KEPT_SECONDS = 86_400
_PURGE_SECONDS = 3600.0
_ENCRYPTED = b"\x01"
_KEY = re.compile(IDEMPOTENCY_KEY.encode())
_REPLAYED = (b"idempotency-replayed", b"true")


class _StoredResponse(msgspec.Struct, frozen=True, array_like=True):
    request: bytes
    status: int
    body: bytes
    etag: bytes


def key_of(call: Call) -> bytes | None:
    key = call.headers.get(b"idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise BadRequest("Idempotency-Key must have 1 to 255 printable ASCII characters without blanks")
    return key


def once(
    context: ChangeContext, call: Call, operation: str, key: bytes, work: Callable[[ChangeContext], Reply]
) -> Reply:
    """Do the work, or return the stored response. Raises KeyUsedOtherwise."""
    assert call.credential is not None
    seq, digest, limit = call.credential.seq, call.credential.digest, call.credential.scope
    sender = b"%d" % seq if seq > 0 else digest.hex().encode()  # numbers below 0 are not unique
    if limit is not None:  # one workload may have another scope by another rule
        sender += limit.key
    scope = hashlib.sha256(b"%b\0%b" % (sender, key)).hexdigest()
    parts = [operation.encode(), call.argument.encode(), call.body, *([call.query] if call.query else [])]
    request = hashlib.sha256(b"\0".join(parts)).digest()
    kept = _find(context, scope, key)
    if kept is None:
        reply = work(context)
        etag = dict(reply.headers).get(b"etag", b"")
        _keep(context, scope, _StoredResponse(request, reply.status, reply.body, etag), key)
        return reply
    if kept.request != request:
        raise KeyUsedOtherwise("the same Idempotency-Key came with another path, query or body")
    tag = ((b"etag", kept.etag),) if kept.etag else ()
    return Reply(kept.status, kept.body, headers=(*tag, *written_at(context.transaction.revision), _REPLAYED))


def _place(scope: str) -> Place:
    return Place("idempotency_keys", scope, "answer")


def _cipher(key: bytes) -> AESGCM:
    return AESGCM(derived_key(key, b"relaydeck idempotent response 1"))


def _decrypted(stored: bytes, key: bytes) -> _StoredResponse:
    if stored.startswith(_ENCRYPTED):  # an earlier version stored the response without this layer
        stored = decrypt(_cipher(key), stored.removeprefix(_ENCRYPTED))
    return msgspec.msgpack.decode(stored, type=_StoredResponse)


async def purge_each_hour(database: Database, writer: Writer) -> None:
    """Responses that were kept for a day contain tokens, and expired proposals secrets: they go without a request."""
    while True:
        await asyncio.sleep(_PURGE_SECONDS)
        with suppress(StoreError, ServerFailure):  # the next round tries again
            if await database.run_in_reader(lambda: can_purge(database.read, time.time())):
                await writer.write(_purge_many)


def _purge_many(transaction: Transaction) -> None:
    transaction.allow_long_statements()
    purge(transaction, time.time())
    forget_expired(transaction, int(time.time()))


def purge(transaction: Transaction, now: float) -> None:
    transaction.execute("DELETE FROM idempotency_keys WHERE created_at <= :oldest", {"oldest": int(now) - KEPT_SECONDS})


def can_purge(read: ReadRows, now: float) -> bool:
    oldest = {"oldest": int(now) - KEPT_SECONDS}
    proposals = "SELECT 1 FROM proposals WHERE sealed_request IS NOT NULL AND expires_at <= :now LIMIT 1"
    return bool(
        read("SELECT 1 FROM idempotency_keys WHERE created_at <= :oldest LIMIT 1", oldest)
        or read(proposals, {"now": int(now)})
    )


def _find(context: ChangeContext, scope: str, key: bytes) -> _StoredResponse | None:
    row = context.transaction.one(
        "SELECT sealed_answer FROM idempotency_keys WHERE scope = :scope AND created_at > :oldest",
        {"scope": scope, "oldest": context.now - KEPT_SECONDS},
    )
    if row is None:
        return None
    try:
        return _decrypted(context.vault.open(row.sealed_answer, _place(scope)), key)
    except Damaged as damage:
        raise ServerFailure(str(damage)) from None


def _keep(context: ChangeContext, scope: str, kept: _StoredResponse, key: bytes) -> None:
    purge(context.transaction, context.now)
    encrypted = _ENCRYPTED + encrypt(_cipher(key), msgspec.msgpack.encode(kept))
    sealed = context.vault.seal(encrypted, _place(scope), context.transaction)
    columns = ("scope", "sealed_answer", "created_at")
    context.transaction.insert("idempotency_keys", columns, [(scope, sealed, context.now)])
