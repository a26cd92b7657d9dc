"""What a check is, and the list of all of them."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from relaydeck.conformance.probe import Probe

Basis = Literal["contract", "ruling"]
Verdict = Literal["holds", "FAILS", "as ruled", "differs", "not checked", "did not occur"]
Run = Callable[[Probe], str | None]


class Check(NamedTuple):
    """`run` returns what it saw; it raises Differs, NotChecked or DidNotOccur."""

    name: str
    section: str
    basis: Basis
    claim: str
    run: Run
    sentences: tuple[str, ...]  # keys of what it holds
    looks_back: bool = False  # at the answers to all requests of the run


class Result(NamedTuple):
    """`verdict`: a contract check holds or fails; a ruling is followed or not, which fails nothing."""

    name: str
    section: str
    basis: Basis
    claim: str
    verdict: Verdict
    expected: str
    seen: str
    options: tuple[str, ...] = ()  # that would allow a check that was not made


CHECKS: list[Check] = []


def contract(section: str, claim: str, *sentences: str, looks_back: bool = False) -> Callable[[Run], Run]:
    """Registers a check of what the contract shows. Its name is the function's."""
    return _registering(section, "contract", claim, sentences, looks_back)


def ruling(section: str, claim: str, *sentences: str, looks_back: bool = False) -> Callable[[Run], Run]:
    """Registers a look at what the contract leaves open: expected is what Relaydeck does."""
    return _registering(section, "ruling", claim, sentences, looks_back)


def _registering(
    section: str, basis: Basis, claim: str, sentences: tuple[str, ...], looks_back: bool
) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        name = run.__name__.removeprefix("check_").replace("_", "-")
        CHECKS.append(Check(name, section, basis, claim, run, sentences, looks_back))
        return run

    return register


def add(section: str, basis: Basis, name: str, claim: str, run: Run, *sentences: str) -> None:
    """Registers one of several checks that differ only in a value."""
    CHECKS.append(Check(name, section, basis, claim, run, sentences))
