"""Asks the server of the shared limits as the service does. Of its URL only scheme, host and port are told."""

import asyncio
import time
from typing import NamedTuple

from relaydeck.http.limit_server import LimitServer, LimitServerError
from relaydeck.settings import Settings

_PATIENCE_SECONDS = 5.0  # longer than the service waits: slow and gone are told apart


class LimitsReport(NamedTuple):
    shown: str
    problem: str  # empty when it answers
    seconds: float  # that one question took


def examine_limits(settings: Settings) -> LimitsReport | None:
    if settings.limits_url is None:
        return None
    server = LimitServer(settings.limits_url, settings.limits_password_file, _PATIENCE_SECONDS)
    return asyncio.run(_examine(server))


async def _examine(server: LimitServer) -> LimitsReport:
    try:
        await server.connect()
        began = time.perf_counter()
        await server.take(1, 1, {})
        return LimitsReport(server.shown, "", time.perf_counter() - began)
    except LimitServerError as problem:
        return LimitsReport(server.shown, str(problem), 0.0)
    finally:
        await server.close()
