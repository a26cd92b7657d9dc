"""The checks of a server: whether it can be reached, and what its own doctor finds."""

from collections.abc import Iterator
from typing import get_args

from relaydeck.cli.remote.connection import Connection, is_unencrypted
from relaydeck.client import models
from relaydeck.doctor.finding import Finding, Result
from relaydeck.errors import OperatorError


def server_findings(connection: Connection) -> Iterator[Finding]:
    reached = _reached(connection)
    yield reached
    if is_unencrypted(connection.url):
        yield Finding("warn", "encryption", "http:// sends the token unencrypted; use https:// outside this machine")
    if reached.result == "FAIL":
        return
    try:
        found = connection.patient().get(list[models.Finding], "doctor").data
    except OperatorError as error:
        yield Finding("FAIL", connection.url, _one_line(error))
        return
    for each in found:
        result: Result = each["result"] if each["result"] in get_args(Result) else "FAIL"
        yield Finding(result, each["subject"], each["remark"])


def _reached(connection: Connection) -> Finding:
    try:
        connection.get(list[models.Token], "tokens", per_page=1)
    except OperatorError as error:
        return Finding("FAIL", "server", _one_line(error))
    return Finding("ok", "server", f"{connection.url} answers and accepts the token")


def _one_line(error: OperatorError) -> str:
    return ". ".join(filter(None, (error.problem, error.remedy)))
