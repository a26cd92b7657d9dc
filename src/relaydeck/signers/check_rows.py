"""The latest check of each signer, in the database."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from relaydeck.errors import RecordNotFound
from relaydeck.signers import signer_rows
from relaydeck.signers.check import RelayerAddress, SignerCheck
from relaydeck.signers.signer_types import Config
from relaydeck.store.database import ReadRows, Row, Transaction
from relaydeck.store.in_list import in_list
from relaydeck.store.vault import Vault

_SIGNER = "SELECT seq, id, type, open_config, sealed_config, secret_version, set_locally FROM signers"
_decode = msgspec.json.Decoder(SignerCheck).decode


class CheckedSigner(NamedTuple):
    """A signer to check. Its sequence number tells it from another signer that gets the same id later."""

    sequence: int
    id: str
    type: str
    config: Config
    set_locally: bool = False


class KeptCheck(NamedTuple):
    alarm: str = ""
    check: SignerCheck | None = None


def read_signers(read: ReadRows, vault: Vault, sequences: Sequence[int], types: frozenset[str]) -> list[CheckedSigner]:
    """Those of them with one of the types. Raises Damaged for a config that does not open."""
    listed, values = in_list(sequences)
    rows = read(f"{_SIGNER} WHERE seq IN ({listed})", values)
    return [_signer(row, vault) for row in rows if row.type in types]


def find_signer(read: ReadRows, vault: Vault, signer_id: str) -> CheckedSigner:
    """Raises RecordNotFound."""
    rows = read(f"{_SIGNER} WHERE id = :id", {"id": signer_id})
    if not rows:
        raise RecordNotFound("signer")
    return _signer(rows[0], vault)


def _signer(row: Row, vault: Vault) -> CheckedSigner:
    config = signer_rows.open_config(vault, row.id, row.type, row.open_config, row.sealed_config, row.secret_version)
    return CheckedSigner(row.seq, row.id, row.type, config, bool(row.set_locally))


def relayers_of(read: ReadRows, signer_id: str) -> list[RelayerAddress]:
    rows = read("SELECT id, address FROM relayers WHERE signer_id = :id ORDER BY seq", {"id": signer_id})
    return [RelayerAddress(row.id, row.address) for row in rows]


def find_check(read: ReadRows, signer_id: str) -> KeptCheck:
    rows = read("SELECT alarm, result FROM signer_checks WHERE signer_id = :id", {"id": signer_id})
    return KeptCheck(rows[0].alarm, _decode(rows[0].result)) if rows else KeptCheck()


def keep(transaction: Transaction, check: SignerCheck, alarm: str) -> None:
    transaction.execute(
        "INSERT INTO signer_checks (signer_id, checked_at, outcome, alarm, result)"
        " VALUES (:id, :at, :outcome, :alarm, :result)"
        " ON CONFLICT (signer_id) DO UPDATE SET checked_at = excluded.checked_at, outcome = excluded.outcome,"
        " alarm = excluded.alarm, result = excluded.result",
        {
            "id": check.signer_id,
            "at": check.checked_at,
            "outcome": check.outcome,
            "alarm": alarm,
            "result": msgspec.json.encode(check).decode(),
        },
    )
