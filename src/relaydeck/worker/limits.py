"""The rate limit of a worker: its own, or one that machines share through a server."""

from relaydeck.http.limit_client import LimitClient
from relaydeck.http.metric_counts import Metrics
from relaydeck.http.ratelimit import RateLimiter
from relaydeck.http.shared_limits import SharedLimiter
from relaydeck.log import Log
from relaydeck.settings import Settings


def local_limiter(settings: Settings) -> RateLimiter | None:
    """None: requests are not limited."""
    if settings.rate_limit_per_second == 0:
        return None
    path = settings.run_folder / "limits"
    return RateLimiter(path, settings.rate_limit_per_second, settings.rate_limit_burst)


def shared_limiter(settings: Settings, local: RateLimiter | None, log: Log, metrics: Metrics) -> SharedLimiter | None:
    """None: there is no server, or no limit."""
    if local is None or settings.limits_url is None:
        return None
    client = LimitClient(settings.limits_url, settings.limits_password_file, settings.limits_timeout_seconds)
    rate, burst = settings.rate_limit_per_second, settings.rate_limit_burst
    return SharedLimiter(client, local, rate, burst, log=log, metrics=metrics)


def limit_policy(settings: Settings) -> tuple[bytes, bytes]:
    """The header that describes the limit."""
    window = -(-settings.rate_limit_burst // max(settings.rate_limit_per_second, 1))
    return (b"ratelimit-policy", b'"default";q=%d;w=%d' % (settings.rate_limit_burst, window))
