"""A bar for what takes long, where somebody is looking; nothing where nobody is."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def watched(what: str, total: int) -> Iterator[Callable[[int], None]]:
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done)
