"""What every request meets: credentials, rate limit, size limit, request id, access log, metrics."""
