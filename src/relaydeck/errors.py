"""Every failure that Relaydeck raises on purpose, and the answer a request gets when it fails.

    RelaydeckError
    ├── RequestError                      answered with a status and a message
    │   ├── BadRequest            400     Bad Request
    │   │   ├── BadFraming        400     Bad Request
    │   │   ├── BodyTooLarge      413     Bad Request
    │   │   ├── MistakenRecord    400     Bad Request
    │   │   └── MistakenDocument  400     Bad Request
    │   ├── Unauthorized          401     Unauthorized
    │   ├── Forbidden             403     Forbidden
    │   ├── UnknownPath           404     Not Found
    │   ├── NotificationNotFound  404     Notification not found
    │   ├── RelayerNotFound       404     Relayer with ID <relayer_id> not found
    │   ├── RecordNotFound        404     <Resource> not found
    │   ├── NoDelivery            404     Delivery not found
    │   ├── WrongMethod           405     Method Not Allowed
    │   ├── SignerExists          409     Signer with this ID already exists
    │   ├── RecordExists          409     <Resource> already exists
    │   ├── StillInUse            409     <Resource> is still used by <records>
    │   ├── NotPossible           409     <problem>
    │   ├── OutOfDate             412     Precondition Failed
    │   │   └── PlanChanged       412     Precondition Failed
    │   ├── KeyUsedOtherwise      422     Idempotency-Key was used for another request
    │   ├── TooManyRequests       429     Too Many Requests
    │   └── ServerFailure         500     Internal Server Error
    │       └── NoRoom            500     Internal Server Error
    ├── StoreError                        a failure of the database, whichever it is
    │   ├── StoreTrouble                  the database failed to complete the operation: full, unreachable, broken
    │   │   ├── StoreUnreachable          no connection to the database exists or can be made
    │   │   ├── StoreUnconfirmed          whether the database stored the write is not known
    │   │   └── StoreConflict             another write has a lock that this one needs, or needs a lock of this one
    │   └── StoreRefusal                  the database works and refuses the data
    ├── Damaged                           a sealed value does not open
    └── OperatorError                     for an operator: the problem and the remedy

A RequestError declares everything that is known about a status: both OpenAPI documents and the metrics derive their
lists from these classes, so a new status is a new class and nothing else. `reason` states what exactly was wrong, in
our words and field names and never with a value of the caller. It is sent in the header `Relaydeck-Reason` and logged.
"""

import errno
import os
from collections.abc import Iterator, Mapping, Set
from types import MappingProxyType
from typing import Any, ClassVar, Literal

Header = tuple[bytes, bytes]

# A property of an operation that decides which errors it can answer with. `any`: every operation.
Trait = Literal[
    "any",
    "admin",  # under /admin/v1
    "limited",  # counts against the rate limit
    "body",  # takes a body
    "identifier",  # under /admin/v1, with an identifier in its path
    "change",  # under /admin/v1, changes something
    "conditional",  # accepts If-Match
    "repeatable",  # accepts Idempotency-Key
    "apply",  # takes an apply document
    "create_signer",
    "update_notification",
    "relayer_rpc",
]


class RelaydeckError(Exception):
    """The root of the tree."""


# sentence: 7-messages
class RequestError(RelaydeckError):
    """`message` is the whole message, or a template of it in which `<…>` stands for a part that differs."""

    status: ClassVar[int]
    message: str
    description: ClassVar[str]  # when it is answered
    example: ClassVar[str] = ""  # of the message, where that is a template
    traits: ClassVar[Set[Trait]] = frozenset()  # of the operations that answer with it
    described_headers: ClassVar[tuple[str, ...]] = ()
    headers: tuple[Header, ...] = ()
    members: Mapping[str, Any] = MappingProxyType({})  # more members of its problem details

    def __init_subclass__(cls, *, status: int = 0, message: str = "", traits: Set[Trait] = frozenset()) -> None:
        """Without a status or a message, those of the class above it."""
        cls.status, cls.message, cls.traits = status or cls.status, message or cls.message, traits

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class BadRequest(RequestError, status=400, message="Bad Request", traits={"any"}):
    description = "The request does not match this document. It has no effect."


class BadFraming(BadRequest):
    """Where the body ends is in doubt, so nothing that follows on the connection can be trusted."""

    description = "The framing of the body is ambiguous. The connection is closed."
    headers = ((b"connection", b"close"),)


class BodyTooLarge(BadRequest, status=413, traits={"body"}):
    description = "The body is larger than the limit (a setting, 1 MiB by default)."


class Unauthorized(RequestError, status=401, message="Unauthorized", traits={"any"}):
    description = (
        "The credential is missing, unknown, expired or revoked, or its kind does not give access to this operation."
    )
    described_headers = ("WWW-Authenticate",)
    headers = ((b"www-authenticate", b"Bearer"),)


class Forbidden(RequestError, status=403, message="Forbidden", traits={"admin"}):
    """A valid credential of a kind without access. `/api/v1` answers Unauthorized instead."""

    description = "The kind of the credential does not give access to this operation."


class UnknownPath(RequestError, status=404, message="Not Found"):
    description = "Nothing is served at this path."


class WrongMethod(RequestError, status=405, message="Method Not Allowed"):
    description = "The path does not accept this method."
    described_headers = ("Allow",)

    def __init__(self, allowed: str) -> None:
        super().__init__(f"this path accepts {allowed}")
        self.headers = ((b"allow", allowed.encode()),)


class NotificationNotFound(RequestError, status=404, message="Notification not found", traits={"update_notification"}):
    description = "No notification has this id."


class RelayerNotFound(
    RequestError, status=404, message="Relayer with ID <relayer_id> not found", traits={"relayer_rpc"}
):
    description = "No relayer has this id."
    example = "Relayer with ID sepolia-9 not found"

    def __init__(self, relayer_id: str) -> None:
        super().__init__("no relayer has this id")
        self.message = f"Relayer with ID {relayer_id} not found"


class SignerExists(RequestError, status=409, message="Signer with this ID already exists", traits={"create_signer"}):
    description = "The given id is taken."


class RecordNotFound(RequestError, status=404, message="<Resource> not found", traits={"identifier"}):
    """For our own operations; the described ones have messages of their own."""

    description = "No such record exists."
    example = "Network not found"

    def __init__(self, resource: str) -> None:
        super().__init__(f"no such {resource} exists")
        self.message = f"{resource.capitalize()} not found"


class NoDelivery(RequestError, status=404, message="Delivery not found"):
    """For an event that exists."""

    description = (
        "The event has no delivery: there was no notification to deliver it to, or the delivery has been removed since."
    )


class RecordExists(RequestError, status=409, message="<Resource> already exists", traits={"change"}):
    description = "The name or id is taken."
    example = "Token already exists"

    def __init__(self, resource: str) -> None:
        super().__init__("the given name is taken")
        self.message = f"{resource.capitalize()} already exists"


class StillInUse(RequestError, status=409, message="<Resource> is still used by <records>", traits={"change"}):
    description = "Other records still refer to this one; the message names them."
    example = "Signer is still used by relayer sepolia-1"

    def __init__(self, resource: str, users: list[str], total: int) -> None:
        super().__init__("other records still refer to it")
        more = f" and {total - len(users)} more" if total > len(users) else ""
        # A scoped credential learns of relayers outside its scope only that there are any.
        named = f" by {', '.join(users)}{more}" if users else ""
        self.message = f"{resource.capitalize()} is still used{named}"


class NotPossible(RequestError, status=409, message="<problem>", traits={"change"}):
    description = "The state of the record does not allow this; the message states the problem."
    example = "Delivery is already due: it is sent at once, or after an earlier event of its relayer"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.message = problem


class OutOfDate(RequestError, status=412, message="Precondition Failed", traits={"conditional"}):
    description = "The record has changed since it was read."


class PlanChanged(OutOfDate, traits={"apply"}):
    """`changes` are the changes of records since the plan was made, each with `at`, `actor`, `action` and `record`.

    `records` are the records that differ from the reviewed plan, each with `kind` and `name`.
    """

    description = (
        "The plan is not the one with this revision. `records` lists what differs, `changes` what was changed."
    )

    def __init__(self, changes: list[dict[str, str]], records: list[dict[str, str]]) -> None:
        super().__init__("the plan is not the one that was reviewed: plan again, and review the new plan")
        self.members = {"changes": changes, "records": records}
        self.changes = changes
        self.records = records


class MistakenRecord(BadRequest):
    """`mistakes` are all of them, each with its field and the problem."""

    description = "The record has mistakes. The request has no effect."

    def __init__(self, mistakes: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{field}: {problem}" if field else problem for field, problem in mistakes))
        self.mistakes = mistakes


class MistakenDocument(BadRequest, traits={"apply"}):
    """`mistakes` are all of them, each with `place` and `problem`."""

    description = "The document has mistakes; `mistakes` lists all of them. It has no effect."

    def __init__(self, mistakes: list[dict[str, str]]) -> None:
        super().__init__("the document has mistakes")
        self.members = {"mistakes": mistakes}


class KeyUsedOtherwise(
    RequestError, status=422, message="Idempotency-Key was used for another request", traits={"repeatable"}
):
    description = "The Idempotency-Key was used for a request with another path, query or body."


class TooManyRequests(RequestError, status=429, message="Too Many Requests", traits={"limited"}):
    description = "The credential has used up its request rate."
    described_headers = ("Retry-After",)

    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__("the credential has used up its request rate")
        self.retry_after_seconds = retry_after_seconds
        self.headers = ((b"retry-after", b"%d" % retry_after_seconds),)


# sentence: 7-server-failure
class ServerFailure(RequestError, status=500, message="Internal Server Error", traits={"any"}):
    description = "The service failed to process the request."
    advice: ClassVar[str] = "a request failed: run 'relaydeck doctor' to check disk and database"  # in the log


class NoRoom(ServerFailure):
    """Too many large bodies arrive at the same time, and this one found no room in its time."""

    advice = "a large body found no room in time: too many arrive at once"


def request_errors(root: type[RequestError] = RequestError) -> Iterator[type[RequestError]]:
    """Every error that a request can be answered with."""
    for error in root.__subclasses__():
        yield error
        yield from request_errors(error)


# Why the database does not accept writes. Anyone may read these words: they name no session, host or file.
WRITE_CAUSES = {
    "lock_held": "another session holds the lock that every write needs",
    "unreachable": "the database cannot be reached",
    "read_only": "the database is read-only",
    "file_replaced": "the database file was deleted or replaced",
    "no_permission": "the database user lacks a right that writes need",
    "disk_full": "the disk of the database is full",
    "disk_error": "the disk of the database fails",
    "standby_away": "no synchronous standby confirms commits",
    "timeout": "the database does not answer a write in time",
    "other": "the database does not accept writes",
}


class StoreError(RelaydeckError):
    """A failure of the database. Users of the store need not know which database it is."""

    cause = "other"  # one of WRITE_CAUSES

    def __init__(self, problem: str = "", cause: str = "") -> None:
        super().__init__(problem)
        self.cause = cause or self.cause


class StoreTrouble(StoreError):
    """The database is at fault, not the operation: the same operation may succeed later."""


class StoreMisuse(StoreTrouble):
    """The database does not understand a statement: a defect of ours, or a schema that somebody changed."""


class StoreUnreachable(StoreTrouble):
    """No connection to the database exists or can be made."""

    remedy = "Check the address, and that the database server is running and accepts this user."
    cause = "unreachable"


class StoreUnconfirmed(StoreTrouble):
    """It is not known whether a write was stored.

    A server did not answer the commit, and it could not be found out in time; or the file was replaced meanwhile.
    """


class StoreConflict(StoreTrouble):
    """Two transactions wait for each other, or one waited too long for the other: it may succeed when repeated."""

    cause = "lock_held"


class StoreRefusal(StoreError):
    """The data violates a constraint: only the operation that wrote it fails."""


class Damaged(RelaydeckError):
    """A sealed value that does not open: changed, moved, replaced by an old one, or sealed by a key that is gone."""

    problem = "does not open"

    def __init__(self, table: str, record: str, field: str) -> None:
        super().__init__(f"the sealed {field} of {table} record {record!r} {self.problem}")
        self.table = table
        self.record = record


class OperatorError(RelaydeckError):
    """A problem that only an operator can solve. `remedy` is the next step, as a sentence."""

    exit_code = 1  # of the command that it ends

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem}\n{remedy}" if remedy else problem)
        self.problem = problem
        self.remedy = remedy


def operator_words(error: Exception) -> tuple[str, str]:
    """The problem and the remedy to show for an error that ends a command or a worker."""
    if isinstance(error, OperatorError):
        return error.problem, error.remedy
    if isinstance(error, OSError):
        return _system_words(error) or type(error).__name__, "Run 'relaydeck doctor' to check folders and files."
    if isinstance(error, StoreUnreachable):
        return str(error), error.remedy
    if isinstance(error, StoreError):
        return f"the database failed to complete the operation: {error}", "Run 'relaydeck doctor' to check it."
    return f"an unexpected {described(error)}", ""


def described(error: BaseException) -> str:
    """The type of an error and, of one of the operating system, what happened to which file.

    Never the text of another error: it might quote a URL or a setting.
    """
    words = _system_words(error) if isinstance(error, OSError) else ""
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _system_words(error: OSError) -> str:
    """Such as "No space left on device (ENOSPC): /path". Empty: it comes from a library and has a text of its own."""
    if error.errno is None or error.errno not in errno.errorcode:
        return ""
    paths = [os.fsdecode(each) for each in (error.filename, error.filename2) if isinstance(each, str | bytes)]
    return f"{os.strerror(error.errno)} ({errno.errorcode[error.errno]}){''.join(f': {path}' for path in paths)}"
