"""Checks every signer with a bound driver once in an interval, in one of the processes that share the database."""

import random
import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from relaydeck.errors import Damaged
from relaydeck.log import Log
from relaydeck.notifications.kinds import EventKind
from relaydeck.signers import check_changes, check_rows
from relaydeck.signers.check import SignerCheck, check_signer
from relaydeck.signers.check_rows import CheckedSigner
from relaydeck.signers.key_access import KeyAccess
from relaydeck.store.audit import AuditLog
from relaydeck.store.change_context import ChangeContext
from relaydeck.store.database import Transaction
from relaydeck.store.open_store import Store
from relaydeck.store.rounds import RoundOptions, Rounds
from relaydeck.store.writer import Writer

Count = Callable[[str], None]


class SignerCheckRounds(Rounds[CheckedSigner]):
    table: ClassVar[str] = "signers"
    lease_name: ClassVar[str] = "signer checks"
    failure: ClassVar[str] = "signers are not checked"

    def __init__(
        self,
        store: Store,
        writer: Writer,
        audit: AuditLog,
        log: Log,
        access: KeyAccess,
        count: Count,
        rounds: RoundOptions,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(store, writer, log, rounds, now=now, monotonic=monotonic, random=random)
        self._audit, self._access, self._count = audit, access, count

    def read_due(self, sequences: Sequence[int]) -> list[tuple[Sequence[int], CheckedSigner]]:
        found: list[CheckedSigner] = []
        for sequence in sequences:
            try:
                found += check_rows.read_signers(self._read, self._vault, [sequence], self._access.bound_types)
            except Damaged:
                continue  # reported where it is shown, and by `relaydeck doctor`
        return [((each.sequence,), each) for each in found]

    async def check_and_save(self, checked: CheckedSigner) -> None:
        keys = await self._access.keys()
        check = await check_signer(
            keys, checked.id, checked.type, checked.config, set_locally=checked.set_locally, clock=self._now
        )
        if self._leases.holds(checked.sequence):
            await self._settle(checked, check)

    async def _settle(self, signer: CheckedSigner, check: SignerCheck) -> None:
        def write(transaction: Transaction) -> tuple[SignerCheck, list[EventKind]]:
            self._leases.require(transaction, signer.sequence)
            context = ChangeContext(transaction, self._audit, "monitor", int(self._now()))
            return check_changes.settle(context, signer, check)

        check, events = await self._writer.write(write)
        self._count("ok" if check.succeeded else "failed")
        for kind in events:
            level = "info" if kind is EventKind.SIGNER_RECOVERED else "warning"
            self._log.event(level, kind.value, signer=signer.id, outcome=check.outcome, explanation=check.explanation)
