"""How a check ends when it does not hold."""


class Differs(Exception):
    """The server did something else than expected."""

    def __init__(self, expected: str, seen: str) -> None:
        super().__init__(expected, seen)
        self.expected = expected
        self.seen = seen


class NotChecked(Exception):
    """The check cannot be made here, and why."""
