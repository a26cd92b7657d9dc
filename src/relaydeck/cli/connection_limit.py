"""How many connections the HTTP server may accept."""

import resource

from relaydeck.log import Log

_MOST_CONNECTIONS = 16_384  # of a worker: idle ones must not lock out others
_OTHER_FILES = 256  # databases, nodes, receivers, logs
_FEW_CONNECTIONS = 1024
_FEWEST_CONNECTIONS = 64


def connection_limit(log: Log) -> int:
    """How many connections a worker may hold, by the limit on open files, which is raised as far as it may be.

    Without this a worker accepts until the system refuses it a file, and then it is busy with nothing but refusals.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    files = _MOST_CONNECTIONS + _OTHER_FILES if hard == resource.RLIM_INFINITY else hard
    limit = max(_FEWEST_CONNECTIONS, min(_MOST_CONNECTIONS, files - _OTHER_FILES))
    if limit < _MOST_CONNECTIONS:
        level = "warning" if limit < _FEW_CONNECTIONS else "info"
        log.event(level, "the limit on open files bounds the connections of a worker", files=files, connections=limit)
    return limit
