"""The tokens that requests are checked against, held in memory, and writes on behalf of a token."""

import json
import time
from asyncio import Future
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar, cast

from relaydeck.credential import Credential
from relaydeck.credentials import tokens
from relaydeck.credentials.tokens import LONGEST, Token, digest_of, tokens_after
from relaydeck.errors import Unauthorized
from relaydeck.scope import Visible
from relaydeck.store.database import ReadRows, RowReader, Transaction
from relaydeck.store.protection import ClosedProtections
from relaydeck.store.sealing import RowProofs
from relaydeck.store.writer import JointWork, Writer, outcomes_of

FindOther = Callable[[bytes, float], Credential]
Item = TypeVar("Item")
Result = TypeVar("Result")
VerifiedTokens = list[tuple[Token, str]]  # with its actor; empty: Relaydeck did not write the row as it is


class Caller(Protocol):
    """The sender of a request that was accepted earlier."""

    seq: int  # of its token; below 0: it has none
    digest: bytes


class OtherCaller(Protocol):
    """A sender without a token: a workload or a person."""

    def holds(self, read: ReadRows, now: float) -> bool:
        """Whether it may still act."""


class TokenCredential:
    """The token a request carries. The pipeline reads `permissions` and `expires_at` on every request."""

    origin = "api"
    __slots__ = (
        *("actor", "digest", "expires_at", "limits", "logged_name", "name", "permissions", "role", "rule"),
        *("scope", "seq", "visible"),
    )

    def __init__(self, token: Token, actor: str) -> None:
        """`actor`: as the audit log names it."""
        self.seq = token.seq
        self.name = token.name
        self.digest = token.digest
        grant = token.grant
        self.role, self.rule = grant.role, f"the token {token.name}"
        self.permissions = grant.permissions
        self.scope, self.limits = grant.scope, grant.limits
        self.visible: Visible | None = grant.scope
        self.expires_at = float("inf") if token.expires_at is None else token.expires_at
        self.logged_name = json.dumps(token.name)
        self.actor = actor


class KnownTokens(NamedTuple):
    """Every token that is accepted, by its digest, and the revision of the latest change of a token included.

    A negative revision: the database has another history, so each write checks its token there.
    """

    by_digest: dict[bytes, TokenCredential]
    revision: int


# sentence: 5-bearer 5-unauthorized
class TokenCache:
    """Every authentic token that is not revoked, by its digest, as fresh as the read model.

    A row that Relaydeck did not write as it is gets reported and is never accepted. Rows are verified when they are
    read, where that does not delay requests, and not with each request.

    An accepted header is remembered whole until any token changes, so that the service hashes a busy client's
    token once instead of once per request.
    """

    table = "tokens"

    def __init__(
        self,
        proofs: RowProofs,
        report_forged: Callable[[Token], None],
        find_other: FindOther | None = None,
        closed: ClosedProtections | None = None,
    ) -> None:
        """`find_other`: finds the credential in what is no access token. Raises Unauthorized, Unverified."""
        self._proofs = proofs
        self._closed = closed or ClosedProtections()
        self._closed.concern(lambda: self._known.by_digest.values())
        self._find_other = find_other
        self._report_forged = report_forged
        # Invariant: the tokens include every change up to their revision. The event loop replaces the two in one step,
        # and other threads read them in one step, because a revision of one history says nothing about another.
        self._known = KnownTokens({}, 0)
        self._accepted: dict[bytes, TokenCredential] = {}

    def find(self, authorization: bytes | None, now: float) -> Credential:
        """The credential in an Authorization header. Raises Unauthorized, Unverified."""
        credential = self._accepted.get(authorization) or self._recognise(authorization, now)  # type: ignore[arg-type]
        if credential.expires_at <= now:
            raise Unauthorized("the credential has expired")
        return credential

    def _recognise(self, authorization: bytes | None, now: float) -> Credential:
        if authorization is None or authorization[:7].lower() != b"bearer ":
            raise Unauthorized("the Authorization header is missing or is not a Bearer credential")
        token = authorization[7:].lstrip(b" ")  # RFC 9110, section 11.4: one space or more
        credential = self._known.by_digest.get(digest_of(token)) if len(token) <= LONGEST else None
        if credential is None and self._find_other is not None:
            return self._find_other(token, now)
        if credential is None:
            raise Unauthorized("the credential is unknown or revoked")
        if len(token) + 7 == len(authorization):  # otherwise one client could fill the memory with spaces
            self._accepted[authorization] = credential
        return credential

    def refusal(self, transaction: Transaction, caller: Caller, now: float) -> Unauthorized | None:
        """Why a write must not be made for the sender of a request that was accepted earlier; None when it may.

        In any thread. The database is only asked after a change of a token that is not in memory yet.
        """
        if caller.seq < 0:
            holds = cast(OtherCaller, caller).holds(transaction.all, now)
        else:
            holds = self._holds(transaction, caller, now)
        return None if holds else Unauthorized("the credential was revoked or expired while the request was received")

    def _holds(self, transaction: Transaction, caller: Caller, now: float) -> bool:
        by_digest, revision = self._known
        if transaction.tokens_revision <= revision:
            current = by_digest.get(caller.digest)
        else:
            current = self._accepted_row(tokens.find(transaction.all, caller.digest))
        return current is not None and current.expires_at > now

    def _accepted_row(self, token: Token | None) -> TokenCredential | None:
        if token is None or token.revoked_at is not None or not token.is_authentic(self._proofs):
            return None
        return TokenCredential(token, token.actor(self._proofs))

    def read_all(self, reader: RowReader) -> VerifiedTokens:
        return self._verified(tokens_after(reader.read, -1))

    def _verified(self, tokens: list[Token]) -> VerifiedTokens:
        proofs = self._proofs
        return [(each, each.actor(proofs) if each.is_authentic(proofs) else "") for each in tokens]

    def replace(self, tokens: VerifiedTokens) -> None:
        self._known = self._updated(KnownTokens({}, 0), tokens)
        self._accepted.clear()

    def distrust(self) -> None:
        """The database has another history. Until `replace`, each write checks its token in the database.

        In any thread.
        """
        self._known = KnownTokens(self._known.by_digest, -1)

    def fetch_changes(self, read: ReadRows, seen: int, *, removed: bool) -> VerifiedTokens:
        return self._verified(tokens_after(read, seen))

    def apply_changes(self, tokens: VerifiedTokens) -> None:
        self._accepted.clear()
        # Last, because another thread may compare the revision: the changes up to it are in memory.
        self._known = self._updated(self._known, tokens)

    def _updated(self, known: KnownTokens, tokens: VerifiedTokens) -> KnownTokens:
        by_digest, revision = known
        for token, actor in tokens:
            if not actor:
                self._report_forged(token)
            # In one step: at no moment does another thread miss a token that stays valid.
            if actor and token.revoked_at is None:
                credential = TokenCredential(token, actor)
                self._closed.limit(credential)
                by_digest[token.digest] = credential
            else:
                by_digest.pop(token.digest, None)
        newest = max((token.revision for token, _ in tokens), default=revision)
        return KnownTokens(by_digest, revision if revision < 0 else newest)


class CallerWriter:
    """Writes on behalf of a token. A request that took long acts only while its token is still accepted."""

    def __init__(self, writer: Writer, tokens: TokenCache, now: Callable[[], float] = time.time) -> None:
        self._writer = writer
        self._tokens = tokens
        self._now = now

    async def write(self, caller: Caller, work: Callable[[Transaction], Result]) -> Result:
        """As `Writer.write`. Raises Unauthorized when the token was revoked or expired since the request began."""

        def checked(transaction: Transaction) -> Result:
            self.check(transaction, caller)
            return work(transaction)

        return await self._writer.write(checked)

    def check(self, transaction: Transaction, caller: Caller) -> None:
        """For a write of its own. Raises Unauthorized when the token was revoked or expired since."""
        if refusal := self._tokens.refusal(transaction, caller, self._now()):
            raise refusal

    def jointly(self, work: JointWork[Item, Result]) -> Callable[[Caller, Item], "Future[Result]"]:
        """As `Writer.write_jointly`, for one work: each item is written for its caller, or refused alone."""

        def checked(transaction: Transaction, given: Sequence[tuple[Caller, Item]]) -> Sequence[Result | Exception]:
            now = self._now()
            callers = {id(caller): caller for caller, _ in given}.values()  # as a rule one
            if not any(self._tokens.refusal(transaction, caller, now) for caller in callers):
                return outcomes_of([item for _, item in given], work, transaction)
            refusals = [self._tokens.refusal(transaction, caller, now) for caller, _ in given]
            accepted = [item for (_, item), refusal in zip(given, refusals, strict=True) if refusal is None]
            outcomes = iter(outcomes_of(accepted, work, transaction) if accepted else ())
            return [next(outcomes) if refusal is None else refusal for refusal in refusals]

        return lambda caller, item: self._writer.write_jointly(checked, (caller, item))
