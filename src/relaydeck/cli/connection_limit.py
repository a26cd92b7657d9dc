"""How many connections the HTTP server may accept."""

import resource

from relaydeck.file_limit import FileLimit, choose_file_limit, set_open_files
from relaydeck.log import Log

_FEW_CONNECTIONS = 1024


def apply_file_limit(log: Log, *, tls: bool) -> FileLimit:
    """Set the limit on open files for this process and its workers, and log how many connections it leaves room for.

    Without this a worker accepts until the system refuses it a file, and then it is busy with nothing but refusals.
    """
    limit = choose_file_limit(resource.getrlimit(resource.RLIMIT_NOFILE)[1], tls=tls)
    set_open_files(limit.files)
    if limit.connections < _FEW_CONNECTIONS:
        figures = {"files": limit.files + limit.kept_back, "connections": limit.connections}
        log.event("warning", "the limit on open files bounds the connections of a worker", **figures)
    return limit
