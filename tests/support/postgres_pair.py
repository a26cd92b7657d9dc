"""A PostgreSQL primary and its streaming standby, which is promoted when the primary ends."""

import time
from itertools import count

from relaydeck.settings.values import DatabaseUrl
from tests.support.postgres import PostgresServer

_SYNCHRONOUS = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
_LONGEST_WAIT = 30.0
_SETTINGS = ("wal_retrieve_retry_interval=50ms",)


class PostgresPair:
    """A commit is confirmed when both servers have it: what was acknowledged outlives a promotion."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.primary = PostgresServer(*_SETTINGS)
        self.standby = PostgresServer(*_SETTINGS, standby_of=self.primary)
        self._await_standby()

    def url(self, name: str) -> DatabaseUrl:
        """Of whichever server is the primary."""
        one, other = sorted(each.port for each in (self.primary, self.standby))
        url = self.primary.url(name).reveal().replace(f":{self.primary.port}/", f":{one},127.0.0.1:{other}/")
        return DatabaseUrl(f"{url}?target_session_attrs=primary")

    def fresh(self) -> str:
        name = f"paired_{next(self._numbers)}"
        self.primary.ask(f"CREATE DATABASE {name} TEMPLATE template0")
        return name

    def crash(self) -> None:
        self.primary.crash()

    def stop(self) -> None:
        self.primary.stop()

    def start(self) -> None:
        self.primary.start()
        self._await_standby()

    def fail_over(self) -> None:
        """The primary crashes, and the standby takes its place."""
        self.primary.crash()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary
        self._confirm_by("")

    def restore_standby(self) -> None:
        """The old primary becomes the standby."""
        self.standby.follow(self.primary)
        self.standby.start()
        self._await_standby()

    def _await_standby(self) -> None:
        self._confirm_by("*")
        deadline = time.monotonic() + _LONGEST_WAIT
        while not self.primary.ask(_SYNCHRONOUS):
            assert time.monotonic() < deadline, self.standby.log[-2000:]
            time.sleep(0.01)

    def _confirm_by(self, standbys: str) -> None:
        self.primary.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{standbys}'")
        self.primary.ask("SELECT pg_reload_conf()")

    def remove(self) -> None:
        for each in (self.primary, self.standby):
            each.remove()
