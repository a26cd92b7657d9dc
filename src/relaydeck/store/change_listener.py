"""Notifications of commits from a database server, in the event loop."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from relaydeck.errors import StoreError


class ChangeFeed(Protocol):
    """A connection that receives a notification for each commit."""

    def fileno(self) -> int: ...

    def consume(self) -> None:
        """Discard the notifications that arrived. Raises StoreTrouble when the connection broke."""

    def close(self) -> None: ...


class ChangeListener:
    """Calls `on_change` in the event loop when notifications arrive, as long as the connection lasts."""

    def __init__(self, listen: Callable[[], ChangeFeed], on_change: Callable[[], None]) -> None:
        self._listen = listen
        self._on_change = on_change
        self._opened: ChangeFeed | None = None  # kept here, so that `close` finds it if `start` is never reached
        self._feed: ChangeFeed | None = None

    @property
    def active(self) -> bool:
        return self._feed is not None

    def open(self) -> None:
        """In a thread, because it waits for the server."""
        self._opened = self._listen()

    def start(self) -> None:
        feed, self._opened = self._opened, None
        assert feed is not None
        self._feed = feed
        asyncio.get_running_loop().add_reader(feed.fileno(), self._on_readable)

    def _on_readable(self) -> None:
        assert self._feed is not None
        try:
            self._feed.consume()
        except StoreError:
            self.stop()
        self._on_change()

    def stop(self) -> None:
        if self._feed is not None:
            asyncio.get_running_loop().remove_reader(self._feed.fileno())
            self._feed.close()
            self._feed = None

    def close(self) -> None:
        """After the thread has ended."""
        if self._opened is not None:
            self._opened.close()
