"""`relaydeck signer check`."""

import sys

from relaydeck.cli.backend import Json
from relaydeck.cli.output import print_json, print_note, print_table, progress_bar
from relaydeck.cli.target import backend
from relaydeck.quantities import counted

_COLUMNS = {
    "signer": lambda view: view["signer_id"],
    "outcome": lambda view: view["outcome"],
    "address": lambda view: view["address"],
    "ms": lambda view: view["milliseconds"],
    "explanation": lambda view: view["explanation"],
}


def check_one(signer_id: str, as_json: bool) -> None:
    _report([backend().signer_checks.check(signer_id)], as_json)


def check_all(as_json: bool) -> None:
    """Every signer with a bound driver."""
    checks = backend().signer_checks
    total = checks.count()
    if unbound := backend().records.list_records("signers", {}, 1).total - total:
        print_note(f"note: {counted(unbound, 'signer')} left out: no driver is bound to the type")
    with progress_bar("checking signers", total) as advance:
        found = list(checks.check_all(advance))
    _report(found, as_json)


def _report(checks: list[Json], as_json: bool) -> None:
    """Exits with 1 when a check did not succeed."""
    if as_json:
        print_json(checks)
    else:
        print_table(checks, _COLUMNS)
    failed = sum(each["outcome"] != "ok" for each in checks)
    print_note(f"{counted(len(checks), 'signer')} checked, {failed} failed")
    if failed:
        sys.exit(1)
