"""When and from where a token was last used: noted with the record of a request, stored in the background."""

import asyncio
from pathlib import Path

from relaydeck.http.access_log import ANONYMOUS, AccessLog, Use
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.request import ClientAddress
from relaydeck.log import Log
from relaydeck.settings.values import address_ranges

_PEER = ("10.0.0.1", 80)


def used(log: AccessLog, moment: float, token: str, route: str = "admin", forwarded: bytes | None = None) -> None:
    log.add((moment, route, 200, 1, b"id", token, _PEER, forwarded, "", 0))


async def test_a_use_is_noted_once_a_minute_with_interface_and_address(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path / "metrics")
    metrics.claim_row()
    clients = ClientAddress(address_ranges("10.0.0.0/8"))
    log = AccessLog(Log(as_json=True, level="error"), metrics, clients, asyncio.get_running_loop())
    used(log, 121.5, '"ci"', "list_relayers")
    used(log, 122.0, ANONYMOUS)
    used(log, 130.0, '"ops"', "console", b"192.0.2.7")
    log.flush()
    used(log, 179.9, '"ci"', "admin")
    log.flush()
    assert log.taken_uses() == {'"ci"': Use(120, "api 10.0.0.1"), '"ops"': Use(120, "console 192.0.2.7")}
    used(log, 185.0, '"ci"', "admin")
    log.flush()
    assert (log.taken_uses(), log.taken_uses()) == ({'"ci"': Use(180, "admin 10.0.0.1")}, {})
