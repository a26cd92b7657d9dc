"""Every way a request can fail, and the one message each failure is told by.

    RelaydeckError
    ├── RequestError                      answered to the caller: status + message
    │   ├── BadRequest            400     "Bad Request"
    │   │   └── BodyTooLarge      413     "Bad Request"
    │   ├── Unauthorized          401     "Unauthorized"
    │   ├── Forbidden             403     "Forbidden"
    │   ├── UnknownPath           404     "Not Found"
    │   ├── NotificationNotFound  404     "Notification not found"
    │   ├── RelayerNotFound       404     "Relayer with ID <relayer_id> not found"
    │   ├── RecordNotFound        404     "<Resource> not found"
    │   ├── WrongMethod           405     "Method Not Allowed"
    │   ├── SignerExists          409     "Signer with this ID already exists"
    │   ├── RecordExists          409     "<Resource> already exists"
    │   ├── StillInUse            409     "<Resource> is still used by <whom>"
    │   ├── NotPossible           409     "<what is in the way>"
    │   ├── OutOfDate             412     "Precondition Failed"
    │   ├── KeyUsedOtherwise      422     "Idempotency-Key was used for another request"
    │   ├── TooManyRequests       429     "Too Many Requests"
    │   └── ServerFailure         500     "Internal Server Error"
    ├── StoreError                        the database, whichever it is
    │   ├── StoreTrouble                  it does not do its work: full, gone, broken
    │   │   └── StoreUnreachable          it cannot even be asked
    │   └── StoreRefusal                  it works, and refuses what was to be written
    └── OperatorError                     told to the operator: what is wrong, what to do

`reason` says what exactly was wrong, in our words and field names, never with a value of the caller's:
it travels in the `Relaydeck-Reason` header and the log, while the body keeps its three fields.
"""

from typing import ClassVar

Header = tuple[bytes, bytes]


class RelaydeckError(Exception):
    """The root: nothing else is raised on purpose."""


class RequestError(RelaydeckError):
    status: ClassVar[int]
    message: str
    headers: tuple[Header, ...] = ()

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class BadRequest(RequestError):
    status = 400
    message = "Bad Request"


class BodyTooLarge(BadRequest):
    status = 413


class Unauthorized(RequestError):
    status = 401
    message = "Unauthorized"
    headers = ((b"www-authenticate", b"Bearer"),)


class Forbidden(RequestError):
    """A credential that is known, but not for this. On `/api/v1` it is told as Unauthorized instead."""

    status = 403
    message = "Forbidden"


class UnknownPath(RequestError):
    status = 404
    message = "Not Found"


class WrongMethod(RequestError):
    status = 405
    message = "Method Not Allowed"

    def __init__(self, allowed: str) -> None:
        super().__init__(f"this path answers {allowed}")
        self.headers = ((b"allow", allowed.encode()),)


class NotificationNotFound(RequestError):
    status = 404
    message = "Notification not found"


class RelayerNotFound(RequestError):
    status = 404

    def __init__(self, relayer_id: str) -> None:
        super().__init__("no relayer has this id")
        self.message = f"Relayer with ID {relayer_id} not found"


class SignerExists(RequestError):
    status = 409
    message = "Signer with this ID already exists"


class RecordNotFound(RequestError):
    """Of our own operations; the described ones have their own words."""

    status = 404

    def __init__(self, resource: str) -> None:
        super().__init__(f"there is no such {resource}")
        self.message = f"{resource.capitalize()} not found"


class RecordExists(RequestError):
    status = 409

    def __init__(self, resource: str) -> None:
        super().__init__("the given name is taken")
        self.message = f"{resource.capitalize()} already exists"


class StillInUse(RequestError):
    status = 409

    def __init__(self, resource: str, users: list[str], total: int) -> None:
        super().__init__("something still refers to it")
        more = f" and {total - len(users)} more" if total > len(users) else ""
        self.message = f"{resource.capitalize()} is still used by {', '.join(users)}{more}"


class NotPossible(RequestError):
    """The request is fine, but the record is in no state for it."""

    status = 409

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.message = problem


class OutOfDate(RequestError):
    status = 412
    message = "Precondition Failed"


class KeyUsedOtherwise(RequestError):
    status = 422
    message = "Idempotency-Key was used for another request"


class TooManyRequests(RequestError):
    status = 429
    message = "Too Many Requests"

    def __init__(self, retry_after_seconds: int, headers: tuple[Header, ...] = ()) -> None:
        super().__init__("the credential's request rate is used up")
        self.headers = (*headers, (b"retry-after", b"%d" % retry_after_seconds))


class ServerFailure(RequestError):
    status = 500
    message = "Internal Server Error"


class StoreError(RelaydeckError):
    """What a database's driver said, in a kind of ours: who uses the store need not know which database it is."""


class StoreTrouble(StoreError):
    """The database, not the work, is at fault: the same may succeed later."""


class StoreUnreachable(StoreTrouble):
    """There is no connection to the database, and none can be made."""


class StoreRefusal(StoreError):
    """A uniqueness, a reference or a value that does not hold: the work is at fault, others are not."""


class OperatorError(RelaydeckError):
    """Something only an operator can mend. `remedy` is the next step, as a sentence."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem}\n{remedy}" if remedy else problem)
        self.problem = problem
        self.remedy = remedy


def operator_words(error: Exception) -> tuple[str, str]:
    """What to tell an operator of an error that stops a command or a worker: the problem, and the next step."""
    if isinstance(error, OperatorError):
        return error.problem, error.remedy
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return (
            f"{error.strerror or type(error).__name__}{where}",
            "Run 'relaydeck doctor': it checks folders and files.",
        )
    if isinstance(error, StoreUnreachable):
        return str(error), "Check that address, and that the database server runs and lets this user in."
    if isinstance(error, StoreError):
        return f"the database does not do its work: {error}", "Run 'relaydeck doctor': it checks the database."
    return f"an unexpected {type(error).__name__}", ""
