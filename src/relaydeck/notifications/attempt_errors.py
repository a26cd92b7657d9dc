"""Why an attempt failed, as operators read it."""

# `ConnectionFailure.ADDRESS_REFUSED`: importing that would load the HTTP client for a command that only prints.
_ADVICE = {
    "address_refused": (
        "an address of the receiver is not public, and RELAYDECK_WEBHOOK_ALLOW of the service does not allow it"
    )
}


def error_of(status: int | None, problem: str | None) -> str:
    """The word for the problem, or else the status of the response."""
    return problem or f"status {status}"


def describe_error(status: int | None, problem: str | None) -> str:
    """The same, with what to do where a setting is the cause."""
    error = error_of(status, problem)
    return f"{error} ({_ADVICE[error]})" if error in _ADVICE else error
