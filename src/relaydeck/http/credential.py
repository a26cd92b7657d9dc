"""What the pipeline needs to know about the sender of a request.

The package `credentials` recognises senders; this package only declares what it reads of one.
"""

from collections.abc import Callable
from typing import Final, Protocol

CONSOLE: Final = "console"


class Credential(Protocol):
    seq: int  # its slot in the rate limiter's table
    digest: bytes  # identifies it to every replica, without revealing it
    actor: str  # the actor in the audit log
    origin: str  # the interface that it uses: `api`, or CONSOLE
    logged_name: str  # as a JSON string
    permissions: frozenset[str]


# The value of an Authorization header and the current time -> the credential. Raises Unauthorized.
FindCredential = Callable[[bytes | None, float], Credential]
