"""A check of a signer, as the admin API, `relaydeck signer check` and the explanation of a relayer show it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from relaydeck.fields import own_field as field
from relaydeck.signers.check import OUTCOMES, SignerCheck
from relaydeck.timestamps import utc


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
    checked_at: Annotated[str, field("When, in UTC.", example="2026-03-01T12:00:00Z")]
    milliseconds: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        field("How long the key system took; null when none was asked.", example=42),
    ]


def stored_report(result: str) -> SignerCheckReport:
    """`result`: a check as it is stored."""
    return check_report(msgspec.json.decode(result, type=SignerCheck))


def check_report(check: SignerCheck) -> SignerCheckReport:
    return SignerCheckReport(
        outcome=check.outcome,
        explanation=check.explanation,
        address=check.address,
        mismatched_relayers=check.mismatched,
        checked_at=utc(check.checked_at),
        milliseconds=check.milliseconds,
    )
