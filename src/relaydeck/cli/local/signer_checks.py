"""Checks of signers, on the home."""

import asyncio
from collections.abc import Iterator, Sequence

from relaydeck.admin.views import json_values
from relaydeck.cli.backend import Advance, Json
from relaydeck.cli.local.store import change_in, existing_store
from relaydeck.cli.output import print_note
from relaydeck.errors import Damaged
from relaydeck.settings import read_settings
from relaydeck.signers import check_changes, check_rows
from relaydeck.signers.check import SignerCheck, check_signer
from relaydeck.signers.check_report import check_report
from relaydeck.signers.check_rows import CheckedSigner
from relaydeck.signers.key_access import KeyAccess
from relaydeck.store.open_store import Store

_AT_ONCE = 256  # signers that are opened at the same time, however many there are


class LocalSignerChecks:
    def check(self, signer_id: str) -> Json:
        with existing_store() as store:
            signer = check_rows.find_signer(store.database.read, store.vault, signer_id)
            (found,) = _checked(store, iter([[signer]]), lambda done: None)
            return found

    def count(self) -> int:
        with existing_store() as store:
            return len(_sequences(store, KeyAccess(read_settings()).bound_types))

    def check_all(self, advance: Advance) -> Iterator[Json]:
        with existing_store() as store:
            bound = KeyAccess(read_settings()).bound_types
            yield from _checked(store, _parts(store, _sequences(store, bound), bound), advance)


def _sequences(store: Store, bound: frozenset[str]) -> list[int]:
    rows = store.database.read("SELECT seq, type FROM signers ORDER BY seq", {})
    return [sequence for sequence, signer_type in rows if signer_type in bound]


def _parts(store: Store, sequences: Sequence[int], bound: frozenset[str]) -> Iterator[list[CheckedSigner]]:
    for start in range(0, len(sequences), _AT_ONCE):
        yield list(_opened(store, sequences[start : start + _AT_ONCE], bound))


def _opened(store: Store, sequences: Sequence[int], bound: frozenset[str]) -> Iterator[CheckedSigner]:
    for sequence in sequences:
        try:
            yield from check_rows.read_signers(store.database.read, store.vault, [sequence], bound)
        except Damaged as damage:
            print_note(f"note: {damage}; see 'relaydeck doctor'")


def _checked(store: Store, parts: Iterator[list[CheckedSigner]], advance: Advance) -> Iterator[Json]:
    with asyncio.Runner() as runner:
        access = KeyAccess(read_settings())
        try:
            for part in parts:
                found = runner.run(_check(access, part, advance))
                for signer, check in zip(part, found, strict=True):
                    with change_in(store) as context:
                        settled = check_changes.settle(context, signer, check)[0]
                    yield {"signer_id": settled.signer_id, **json_values(check_report(settled))}
        finally:
            runner.run(access.close())


async def _check(access: KeyAccess, signers: list[CheckedSigner], advance: Advance) -> list[SignerCheck]:
    keys = await access.keys()

    async def check(signer: CheckedSigner) -> SignerCheck:
        found = await check_signer(keys, signer.id, signer.type, signer.config, set_locally=signer.set_locally)
        advance(1)
        return found

    return await asyncio.gather(*(check(each) for each in signers))
