"""The result of one check, and how long checks show their progress."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, NamedTuple

Advance = Callable[[int], None]  # by so many steps
Progress = Callable[[str, int], AbstractContextManager[Advance]]  # of work with a label and a number of steps


Result = Literal["ok", "warn", "FAIL"]


class Finding(NamedTuple):
    """The result of one check of `relaydeck doctor`."""

    result: Result
    subject: str
    remark: str


@contextmanager
def no_progress(label: str, total: int) -> Iterator[Advance]:
    yield lambda done: None
