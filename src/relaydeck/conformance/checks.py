"""What a check is, and the list of all of them."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from relaydeck.conformance.probe import Probe

Basis = Literal["contract", "ruling"]


class Check(NamedTuple):
    """`run` returns what it saw; it raises Differs or NotChecked."""

    name: str
    section: str
    basis: Basis
    claim: str
    run: Callable[[Probe], str]


class Result(NamedTuple):
    """`verdict`: a contract check holds or fails; a ruling is followed or not, which fails nothing."""

    name: str
    section: str
    basis: Basis
    claim: str
    verdict: Literal["holds", "FAILS", "as ruled", "differs", "not checked"]
    expected: str
    seen: str


CHECKS: list[Check] = []
Run = Callable[[Probe], str | None]


def contract(section: str, claim: str) -> Callable[[Run], Run]:
    """Registers a check of what the contract shows. Its name is the function's."""
    return _registering(section, "contract", claim)


def ruling(section: str, claim: str) -> Callable[[Run], Run]:
    """Registers a look at what the contract leaves open: expected is what Relaydeck does."""
    return _registering(section, "ruling", claim)


def _registering(section: str, basis: Basis, claim: str) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        name = run.__name__.removeprefix("check_").replace("_", "-")
        CHECKS.append(Check(name, section, basis, claim, lambda probe: run(probe) or "as expected"))
        return run

    return register


def add(section: str, basis: Basis, name: str, claim: str, run: Run) -> None:
    """Registers one of several checks that differ only in a value."""
    CHECKS.append(Check(name, section, basis, claim, lambda probe: run(probe) or "as expected"))
