"""What every request passes: credential, rate limit, body, request id, access log, metrics."""
