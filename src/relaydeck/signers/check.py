"""Whether a signer reaches its key: it signs a challenge, and the address that signed is that of its relayers.

Knows neither HTTP, nor the command line, nor the database.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from relaydeck.quantities import first_few
from relaydeck.signers.drivers.driver_errors import DriverError
from relaydeck.signers.signer_types import Config

if TYPE_CHECKING:
    from relaydeck.signers.drivers.keys import SignerKeys

OK = "ok"
MISMATCH = "mismatch"
UNBOUND = "unbound"
CANNOT_SIGN = "cannot_sign"
THROTTLED = "throttled"
OUTCOMES = (
    OK,
    MISMATCH,
    CANNOT_SIGN,
    "unreachable",
    "access_denied",
    "key_not_found",
    "wrong_key_kind",
    THROTTLED,
    "does_not_verify",
    "unusable_config",
    UNBOUND,
)
_MOST_NAMED = 3


class RelayerAddress(msgspec.Struct, frozen=True):
    relayer_id: str
    address: str


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
    keys: "SignerKeys",
    signer_id: str,
    signer_type: str,
    config: Config,
    *,
    set_locally: bool = False,
    clock: Callable[[], float] = time.time,
    timer: Callable[[], float] = time.perf_counter,
) -> SignerCheck:
    """Have the key prove itself. Never raises for what a key system does."""
    started_at = int(clock())
    try:
        await keys.load(signer_type, set_locally=set_locally)
    except DriverError as error:
        return SignerCheck(signer_id, started_at, None, error.outcome, str(error))
    started = timer()
    outcome, address = OK, None
    try:
        address = (await keys.prove(signer_type, config, set_locally=set_locally)).identity.address
        explanation = _success(0)
    except DriverError as error:
        outcome, explanation = error.outcome, str(error)
    elapsed = round((timer() - started) * 1000)
    return SignerCheck(signer_id, started_at, elapsed, outcome, explanation, address)


def compared(check: SignerCheck, relayers: Sequence[RelayerAddress]) -> SignerCheck:
    """The same check, once the address of the key is compared with those of the relayers that use the signer."""
    if check.address is None:
        return check
    others = [each for each in relayers if each.address.lower() != check.address.lower()]
    if not others:
        return msgspec.structs.replace(check, outcome=OK, explanation=_success(len(relayers)), mismatched=())
    ids = tuple(each.relayer_id for each in others)
    explanation = _mismatch(check.address, others)
    return msgspec.structs.replace(check, outcome=MISMATCH, explanation=explanation, mismatched=ids)


def _success(relayers: int) -> str:
    if not relayers:
        return "the key signed a challenge; no relayer uses this signer"
    return f"the key signed a challenge, and its address matches {_count(relayers)}"


def _mismatch(address: str, others: Sequence[RelayerAddress]) -> str:
    named = [f"{each.relayer_id!r} has {each.address}" for each in others]
    return f"the key signs for {address}, but relayer {first_few(named, _MOST_NAMED)}"


def _count(relayers: int) -> str:
    return "the one relayer that uses this signer" if relayers == 1 else f"the {relayers} relayers that use this signer"
