"""Fills a home with many signers and relayers. Run with the sources of the version that is to have written them."""

import sys
import time
from importlib import import_module
from typing import Any

import msgspec

from relaydeck.relayers.model import Policies
from relaydeck.secret import Secret
from relaydeck.signers.signer_types import NewSigner, SecretStoreConfig
from relaydeck.store.audit import AuditEntry, AuditLog
from relaydeck.store.open_store import open_store

_AT_ONCE = 20_000
_COLUMNS = ("id", "name", "network", "network_type", "address", "signer_id", "paused", "system_disabled", "policies")


def _before(module: str) -> Any:
    """A module of the version before, which runs this."""
    return import_module(f"relaydeck.{module}")


def fill(network: str, count: int) -> None:
    store, now = open_store(_before("settings").read_settings()), int(time.time())
    log = AuditLog(store.vault)
    for first in range(0, count, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, count))
        signers = [_before("signers.signer_rows").prepare(_signer(number)) for number in numbers]
        with store.database.transaction() as transaction:
            _before("signers.signer_rows").create_all(transaction, store.vault, signers, origin="apply", now=now)
            relayers = [(*_relayer(network, number), "apply", now, transaction.revision) for number in numbers]
            transaction.insert("relayers", (*_COLUMNS, "origin", "created_at", "revision"), relayers)
            log.append(transaction, [entry for number in numbers for entry in _entries(network, number, now)])


def _signer(number: int) -> NewSigner:
    config = SecretStoreConfig("https://vault.example.com", f"key-{number}", Secret("role"), Secret(f"secret-{number}"))
    return NewSigner(f"filled-{number}", "provider_c", config)


def _relayer(network: str, number: int) -> tuple[object, ...]:
    name, policies = f"Relayer {number}", msgspec.json.encode(Policies()).decode()
    return (f"filled-{number}", name, network, "evm", f"0x{number:040x}", f"filled-{number}", True, False, policies)


def _entries(network: str, number: int, now: int) -> list[AuditEntry]:
    record = f"filled-{number}"
    relayer = {"id": record, "name": f"Relayer {number}", "network": network, "signer_id": record, "paused": True}
    return [
        AuditEntry(now, "cli:root", "signer.created", record, None, '{"type":"provider_c"}'),
        AuditEntry(now, "cli:root", "relayer.created", record, None, msgspec.json.encode(relayer).decode()),
    ]


if __name__ == "__main__":
    fill(sys.argv[1], int(sys.argv[2]))
