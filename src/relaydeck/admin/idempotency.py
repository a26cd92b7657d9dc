"""`Idempotency-Key`: for a day, a repeated POST gets the stored response and has no further effect.

The response is stored in the transaction of the change, so neither exists without the other. Write transactions are
serialised: of two requests at the same time, one makes the change and the other gets its response. A response can
contain a new token, so it is stored encrypted. A refused request changes nothing and leaves its key unused.
"""

import hashlib
import re
from collections.abc import Callable

import msgspec

from relaydeck.errors import BadRequest, KeyUsedOtherwise, ServerFailure
from relaydeck.http.pipeline import Call, Reply, written_at
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.sealing import Damaged, Place

KEPT_SECONDS = 86_400
_KEY = re.compile(rb"[\x21-\x7e]{1,255}")
_REPLAYED = (b"idempotency-replayed", b"true")


class _StoredResponse(msgspec.Struct, frozen=True, array_like=True):
    request: bytes
    status: int
    body: bytes
    etag: bytes


def key_of(call: Call) -> bytes | None:
    """Raises BadRequest for a key that is not valid."""
    key = call.headers.get(b"idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise BadRequest("Idempotency-Key must have 1 to 255 printable ASCII characters without blanks")
    return key


def once(
    context: ChangeContext, call: Call, operation: str, key: bytes, work: Callable[[ChangeContext], Reply]
) -> Reply:
    """Do the work, or return the stored response. Raises KeyUsedOtherwise."""
    assert call.credential is not None
    scope = hashlib.sha256(b"%d\0%b" % (call.credential.seq, key)).hexdigest()
    request = hashlib.sha256(b"\0".join([operation.encode(), call.argument.encode(), call.body])).digest()
    kept = _find(context, scope)
    if kept is None:
        reply = work(context)
        _keep(context, scope, _StoredResponse(request, reply.status, reply.body, dict(reply.headers).get(b"etag", b"")))
        return reply
    if kept.request != request:
        raise KeyUsedOtherwise("the same Idempotency-Key came with another path or body")
    etag = ((b"etag", kept.etag),) if kept.etag else ()
    return Reply(kept.status, kept.body, headers=(*etag, *written_at(context.transaction.revision), _REPLAYED))


def _place(scope: str) -> Place:
    return Place("idempotency_keys", scope, "answer")


def _find(context: ChangeContext, scope: str) -> _StoredResponse | None:
    row = context.transaction.one(
        "SELECT sealed_answer FROM idempotency_keys WHERE scope = :scope AND created_at > :oldest",
        {"scope": scope, "oldest": context.now - KEPT_SECONDS},
    )
    if row is None:
        return None
    try:
        return msgspec.msgpack.decode(context.vault.open(row[0], _place(scope)), type=_StoredResponse)
    except Damaged as damage:
        raise ServerFailure(str(damage)) from None


def _keep(context: ChangeContext, scope: str, kept: _StoredResponse) -> None:
    context.transaction.execute(
        "DELETE FROM idempotency_keys WHERE created_at <= :oldest", {"oldest": context.now - KEPT_SECONDS}
    )
    context.transaction.execute(
        "INSERT INTO idempotency_keys (scope, sealed_answer, created_at) VALUES (:scope, :sealed, :now)",
        {
            "scope": scope,
            "sealed": context.vault.seal(msgspec.msgpack.encode(kept), _place(scope), context.transaction),
            "now": context.now,
        },
    )
