"""The checks of a server: what its admin API can tell. The machine, its disk and its files are checked on the home."""

from collections.abc import Callable, Iterator

from relaydeck.cli.backend import Json
from relaydeck.cli.remote.connection import Connection, is_unencrypted
from relaydeck.cli.remote.records import RemoteRecords
from relaydeck.doctor.finding import Finding
from relaydeck.errors import OperatorError
from relaydeck.quantities import counted

_MOST_NAMED = 20
_CHECK_RELAYER = "see 'relaydeck relayer why'"


def server_findings(connection: Connection) -> Iterator[Finding]:
    reached = _reached(connection)
    yield reached
    if is_unencrypted(connection.url):
        yield Finding("warn", "encryption", "http:// sends the token unencrypted; use https:// outside this machine")
    if reached.result == "FAIL":
        return
    checks: tuple[Callable[[Connection], Iterator[Finding]], ...] = (_audit, _signers, _relayers, _deliveries)
    for check in checks:
        try:
            yield from check(connection)
        except OperatorError as error:
            yield Finding("FAIL", connection.url, _one_line(error))


def _reached(connection: Connection) -> Finding:
    try:
        connection.get("tokens", per_page=1)
    except OperatorError as error:
        return Finding("FAIL", "server", _one_line(error))
    return Finding("ok", "server", f"{connection.url} answers and accepts the token")


def _one_line(error: OperatorError) -> str:
    return ". ".join(filter(None, (error.problem, error.remedy)))


def _audit(connection: Connection) -> Iterator[Finding]:
    found = connection.get("audit", "verify").data
    if found["problem"] is None:
        yield Finding("ok", "audit log", f"{counted(found['entries'], 'entry', 'entries')}, every link holds")
    else:
        broken = f"entry {found['broken_at']} {found['problem']}; compare the entries from there on with a backup"
        yield Finding("FAIL", "audit log", broken)


def _signers(connection: Connection) -> Iterator[Finding]:
    found = RemoteRecords(connection).list_records("signers", {"check": "failing"}, _MOST_NAMED)
    for each in found.bodies:
        yield Finding("FAIL", f"signer {each['id']!r}", each["check"]["explanation"])
    yield from _rest("signers", len(found.bodies), found.total, "no signer fails its latest check")


def _relayers(connection: Connection) -> Iterator[Finding]:
    found = RemoteRecords(connection).list_records("relayers", {"state": "disabled"}, _MOST_NAMED)
    for each in found.bodies:
        yield Finding("FAIL", f"relayer {each['id']!r}", f"is disabled: {_reason(each)}; {_CHECK_RELAYER} {each['id']}")
    yield from _rest("relayers", len(found.bodies), found.total, "no relayer is disabled")


def _reason(relayer: Json) -> str:
    reason = relayer.get("disabled_reason") or {}
    return reason.get("details") or reason.get("type") or "no reason is stored"


def _rest(subject: str, named: int, total: int, fine: str) -> Iterator[Finding]:
    if not total:
        yield Finding("ok", subject, fine)
    elif total > named:
        yield Finding("FAIL", subject, f"{total - named} more")


def _deliveries(connection: Connection) -> Iterator[Finding]:
    if connection.get("deliveries", state="dead", per_page=1).data:
        remark = "some events were not delivered and given up; 'relaydeck event replay --all-dead' sends them again"
        yield Finding("warn", "deliveries", remark)
    else:
        yield Finding("ok", "deliveries", "no delivery was given up")
