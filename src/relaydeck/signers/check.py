"""Checks that a signer reaches its key: it signs a challenge, and the address that signed is that of its relayers.

Knows neither HTTP, nor the command line, nor the database.
"""

import time
from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from relaydeck.fields import own_field as field
from relaydeck.quantities import Moment, first_few
from relaydeck.signers.drivers.driver_errors import DriverError
from relaydeck.signers.drivers.keys import SignerKeys
from relaydeck.signers.signer_types import NewSigner
from relaydeck.timestamps import utc

OK = "ok"
MISMATCH = "mismatch"
OUTCOMES = (OK, MISMATCH, *(each.outcome for each in DriverError.__subclasses__()))
_MOST_NAMED = 3


class SignerCheck(msgspec.Struct, frozen=True):
    """The result of one check."""

    signer_id: str
    checked_at: int  # seconds since the epoch
    milliseconds: int | None  # None: no key system was asked
    outcome: str  # ok, mismatch, or the outcome of a DriverError
    explanation: str
    address: str | None = None  # of the key, when it proved itself
    mismatched: tuple[str, ...] = ()  # ids of the relayers that have another address
    failing_since: int | None = None  # the first of the latest checks in a row that failed; None: not known

    @property
    def succeeded(self) -> bool:
        return self.outcome == OK


async def check_signer(
    keys: SignerKeys,
    signer: NewSigner,
    *,
    clock: Callable[[], float] = time.time,
    timer: Callable[[], float] = time.perf_counter,
) -> SignerCheck:
    """Have the key prove itself. Never raises for what a key system does."""
    started_at, started, local = int(clock()), None, bool(signer.set_locally)
    outcome, explanation, address = OK, _success(0), None
    try:
        await keys.load(signer.type, set_locally=local)
        started = timer()
        address = (await keys.prove(signer.type, signer.config, set_locally=local)).address
    except DriverError as error:
        outcome, explanation = error.outcome, str(error)
    elapsed = None if started is None else round((timer() - started) * 1000)
    return SignerCheck(signer.id, started_at, elapsed, outcome, explanation, address)


def compared(check: SignerCheck, relayers: Mapping[str, str]) -> SignerCheck:
    """The same check, once the address of the key is compared with those of the relayers that use it, by their ids."""
    if check.address is None:
        return check
    others = {each: address for each, address in relayers.items() if address.lower() != check.address.lower()}
    if not others:
        return msgspec.structs.replace(check, outcome=OK, explanation=_success(len(relayers)), mismatched=())
    named = [f"{each!r} has {address}" for each, address in others.items()]
    explanation = f"the key signs for {check.address}, but relayer {first_few(named, _MOST_NAMED)}"
    return msgspec.structs.replace(check, outcome=MISMATCH, explanation=explanation, mismatched=tuple(others))


def _success(relayers: int) -> str:
    if not relayers:
        return "the key signed a challenge; no relayer uses this signer"
    users = "the one relayer that uses" if relayers == 1 else f"the {relayers} relayers that use"
    return f"the key signed a challenge, and its address matches {users} this signer"


_decode = msgspec.json.Decoder(SignerCheck).decode


class SignerCheckReport(msgspec.Struct, frozen=True, kw_only=True):
    outcome: Annotated[str, field("What the check found.", example="ok", schema={"enum": list(OUTCOMES)})]
    explanation: Annotated[
        str,
        field(
            "The outcome in words.",
            example="the key signed a challenge, and its address matches the 2 relayers that use this signer",
        ),
    ]
    address: Annotated[
        str | None,
        field(
            "The address of the key; null when the key did not sign.",
            example="0x2c7536E3605D9C16a7a3D7b1898e529396a65c23",
        ),
    ]
    mismatched_relayers: Annotated[
        tuple[str, ...], field("Ids of the relayers that use the signer and have another address.", example=[])
    ]
    checked_at: Annotated[Moment, field("When, in UTC.", example="2026-03-01T12:00:00Z")]
    milliseconds: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        field("How long the key system took; null when none was asked.", example=42),
    ]


def stored_check(result: str) -> SignerCheck:
    """`result`: a check as it is stored; for a scoped credential followed by the relayers that it may see."""
    text, *lines = result.split("\n")
    check = _decode(text)
    pairs = sorted(each.partition(" ")[::2] for each in lines if each)
    return seen(check, {relayer: address for address, relayer in pairs}) if lines else check


def seen(check: SignerCheck, relayers: Mapping[str, str]) -> SignerCheck:
    """A check as it looks where only these relayers exist."""
    mismatched = tuple(each for each in check.mismatched if each in relayers)
    found = compared(msgspec.structs.replace(check, mismatched=mismatched), relayers)
    return msgspec.structs.replace(found, failing_since=None) if found.succeeded else found


def check_report(check: SignerCheck) -> SignerCheckReport:
    return SignerCheckReport(
        outcome=check.outcome,
        explanation=check.explanation,
        address=check.address,
        mismatched_relayers=check.mismatched,
        checked_at=utc(check.checked_at),
        milliseconds=check.milliseconds,
    )
