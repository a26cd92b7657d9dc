"""The audit log under the doctor's eye: every link is walked, and a long walk can be watched."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from relaydeck.store.audit import COUNT_SQL, BrokenLink, Head, Opens, verify
from relaydeck.store.database import Row

_LONG_ENTRIES = 100_000  # a second or so
_STEP_ENTRIES = 1000

Rows = Callable[[str], Iterable[Row]]


def examine_audit(rows: Rows, keys: Opens) -> Head | BrokenLink:
    """The head in which the chain ends, or the first link that does not hold."""
    ((total,),) = rows(COUNT_SQL)
    with _watched(total) as advance:
        return verify(lambda sql: _stepping(rows(sql), advance), keys)


def _stepping(rows: Iterable[Row], advance: Callable[[int], None]) -> Iterator[Row]:
    for number, row in enumerate(rows, 1):
        if number % _STEP_ENTRIES == 0:
            advance(_STEP_ENTRIES)
        yield row


@contextmanager
def _watched(total: int) -> Iterator[Callable[[int], None]]:
    if total < _LONG_ENTRIES or not sys.stderr.isatty():
        yield lambda entries: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"checking {total:,} entries of the audit log", total=total)
        yield lambda entries: progress.advance(task, entries)
