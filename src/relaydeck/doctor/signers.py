"""Checks that each signer type in use has a driver, and that signers passed their latest check."""

from collections.abc import Iterator

from relaydeck.doctor.finding import Finding
from relaydeck.quantities import counted
from relaydeck.settings import Settings
from relaydeck.store.database import Reader

_MOST_NAMED = 5


def signer_findings(database: Reader, settings: Settings) -> Iterator[Finding]:
    yield from _unbound_findings(database, settings)
    yield from _check_findings(database)


def _unbound_findings(database: Reader, settings: Settings) -> Iterator[Finding]:
    rows = database.read("SELECT type, count(*) AS total FROM signers GROUP BY type ORDER BY type")
    for row in rows:
        if row.type not in settings.driver_bindings:
            remark = f"{counted(row.total, 'signer')} of the type {row.type} cannot be checked"
            yield Finding("warn", "signers", f"{remark}; bind a driver: RELAYDECK_DRIVER_{row.type.upper()}")


def _check_findings(database: Reader) -> Iterator[Finding]:
    checked: int = database.read("SELECT count(*) AS total FROM signer_checks")[0].total
    failing = database.read(
        "SELECT signer_id, outcome FROM signer_checks WHERE outcome <> 'ok' ORDER BY signer_id LIMIT :most",
        {"most": _MOST_NAMED + 1},
    )
    if not failing:
        if checked:
            yield Finding("ok", "signers", f"{counted(checked, 'signer')} passed the latest check")
        return
    named = ", ".join(f"{each.signer_id!r} ({each.outcome})" for each in failing[:_MOST_NAMED])
    more = " and more" if len(failing) > _MOST_NAMED else ""
    yield Finding("FAIL", "signers", f"{named}{more} failed the latest check; run 'relaydeck signer check ID'")
