"""Checks the server of the shared rate limits with a request like the service's own."""

import asyncio
import time
from collections.abc import Iterator

from relaydeck.doctor.finding import Finding
from relaydeck.http.limit_client import LimitClient, LimitServerError
from relaydeck.settings import Settings

_TIMEOUT_SECONDS = 5.0  # longer than the service waits, to tell a slow server from one that is down


def limits_findings(settings: Settings) -> Iterator[Finding]:
    if settings.limits_url is None:
        return
    client = LimitClient(settings.limits_url, settings.limits_password_file, _TIMEOUT_SECONDS)
    subject = f"shared limits {client.shown}"  # scheme, host and port only
    try:
        seconds = asyncio.run(_response_seconds(client))
    except LimitServerError as problem:
        yield Finding("FAIL", subject, f"{problem}; until it responds, each machine limits on its own")
        return
    if seconds > settings.limits_timeout_seconds:
        slow = f"it responds in {seconds:.3f} s; the service waits {settings.limits_timeout_seconds:g} s"
        yield Finding("warn", subject, f"{slow} (RELAYDECK_LIMITS_TIMEOUT_SECONDS)")
    else:
        yield Finding("ok", subject, "it responds")


async def _response_seconds(client: LimitClient) -> float:
    try:
        await client.connect()
        began = time.perf_counter()
        await client.take(1, 1, {})
        return time.perf_counter() - began
    finally:
        await client.close()
