"""The tokens that requests are checked against, held in memory."""

import json
from collections.abc import Callable
from typing import NamedTuple, Protocol

from relaydeck.credentials import token_rows
from relaydeck.credentials.kinds import permissions_of
from relaydeck.credentials.token_rows import Token, tokens_after
from relaydeck.credentials.tokens import digest_of
from relaydeck.errors import Unauthorized
from relaydeck.store.database import ReadRows, RowReader, Transaction
from relaydeck.store.row_proofs import RowProofs


class Caller(Protocol):
    """The sender of a request that was accepted earlier."""

    digest: bytes


class TokenCredential:
    """The token a request carries. The pipeline reads `permissions` and `expires_at` on every request."""

    origin = "api"
    __slots__ = ("actor", "digest", "expires_at", "kind", "logged_name", "name", "permissions", "seq")

    def __init__(self, token: Token) -> None:
        self.seq = token.seq
        self.name = token.name
        self.digest = token.digest
        self.kind = token.kind
        self.permissions = permissions_of(token.kind)
        self.expires_at = float("inf") if token.expires_at is None else token.expires_at
        self.logged_name = json.dumps(token.name)
        self.actor = f"token:{token.name}"  # the actor in the audit log


class KnownTokens(NamedTuple):
    """Every token that is accepted, by its digest, and the revision of the latest change of a token included.

    A negative revision: the database has another history, so each write checks its token there.
    """

    by_digest: dict[bytes, TokenCredential]
    revision: int


class AllTokens(NamedTuple):
    known: KnownTokens
    forged: list[Token]


# sentence: 5-bearer 5-unauthorized
class TokenBook:
    """Every authentic token that is not revoked, by its digest, as fresh as the read model.

    A row that Relaydeck did not write as it is gets reported and is never accepted. Rows are verified when they are
    read, not with each request.

    An accepted header is remembered whole until any token changes, so that the service hashes a busy client's
    token once instead of once per request.
    """

    table = "tokens"

    def __init__(self, proofs: RowProofs, report_forged: Callable[[Token], None]) -> None:
        self._proofs = proofs
        self._report_forged = report_forged
        # Invariant: the tokens include every change up to their revision. The event loop replaces the two in one step,
        # and other threads read them in one step, because a revision of one history says nothing about another.
        self._known = KnownTokens({}, 0)
        self._accepted: dict[bytes, TokenCredential] = {}

    def find(self, authorization: bytes | None, now: float) -> TokenCredential:
        """The credential in an Authorization header. Raises Unauthorized."""
        credential = self._accepted.get(authorization) or self._recognise(authorization)  # type: ignore[arg-type]
        if credential.expires_at <= now:
            raise Unauthorized("the credential has expired")
        return credential

    def _recognise(self, authorization: bytes | None) -> TokenCredential:
        if authorization is None or authorization[:7].lower() != b"bearer ":
            raise Unauthorized("the Authorization header is missing or is not a Bearer credential")
        token = authorization[7:].lstrip(b" ")  # RFC 9110, section 11.4: one space or more
        credential = self._known.by_digest.get(digest_of(token))
        if credential is None:
            raise Unauthorized("the credential is unknown or revoked")
        if len(token) + 7 == len(authorization):  # otherwise one client could fill the memory with spaces
            self._accepted[authorization] = credential
        return credential

    def refusal(self, transaction: Transaction, caller: Caller, now: float) -> Unauthorized | None:
        """Why a write must not be made for the sender of a request that was accepted earlier; None when it may.

        In any thread. The database is only asked after a change of a token that is not in memory yet.
        """
        by_digest, revision = self._known
        if transaction.tokens_revision <= revision:
            current = by_digest.get(caller.digest)
        else:
            current = self._accepted_row(token_rows.find(transaction, caller.digest))
        if current is None or current.expires_at <= now:
            return Unauthorized("the credential was revoked or expired while the request was received")
        return None

    def _accepted_row(self, token: Token | None) -> TokenCredential | None:
        if token is None or token.revoked_at is not None or not token.is_authentic(self._proofs):
            return None
        return TokenCredential(token)

    def read_all(self, reader: RowReader) -> AllTokens:
        tokens, by_digest, forged = tokens_after(reader.read, -1), dict[bytes, TokenCredential](), list[Token]()
        for token in tokens:
            if not token.is_authentic(self._proofs):
                forged.append(token)
            elif token.revoked_at is None:
                by_digest[token.digest] = TokenCredential(token)
        return AllTokens(KnownTokens(by_digest, _newest_revision(tokens, 0)), forged)

    def replace(self, state: AllTokens) -> None:
        for token in state.forged:
            self._report_forged(token)
        self._known = state.known
        self._accepted.clear()

    def distrust(self) -> None:
        """The database has another history. Until `replace`, each write checks its token in the database.

        In any thread.
        """
        self._known = KnownTokens(self._known.by_digest, -1)

    def fetch_changes(self, read: ReadRows, seen: int, *, removed: bool) -> list[Token]:
        return tokens_after(read, seen)

    def apply_changes(self, tokens: list[Token]) -> None:
        by_digest, revision = self._known
        for token in tokens:
            authentic = token.is_authentic(self._proofs)
            if not authentic:
                self._report_forged(token)
            # In one step: at no moment does another thread miss a token that stays valid.
            if authentic and token.revoked_at is None:
                by_digest[token.digest] = TokenCredential(token)
            else:
                by_digest.pop(token.digest, None)
        self._accepted.clear()
        # Last, because another thread may compare it: the changes up to it are in memory.
        self._known = KnownTokens(by_digest, revision if revision < 0 else _newest_revision(tokens, revision))


def _newest_revision(tokens: list[Token], otherwise: int) -> int:
    return max((token.revision for token in tokens), default=otherwise)
