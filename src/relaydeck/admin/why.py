"""`GET /admin/v1/relayers/{id}/why`: explains the state of a relayer, by default with a call to each of its nodes."""

import time

from relaydeck.admin.operation import Content, Operations, Request
from relaydeck.admin.store_thread import StoreThread
from relaydeck.errors import BadRequest
from relaydeck.networks.evm.figure_files import read_faults
from relaydeck.relayers import why
from relaydeck.relayers.snapshots import GetPool
from relaydeck.settings import Settings
from relaydeck.signers.signer_state import read_signer_state, with_signer


class WhyOperation:
    def __init__(self, reads: StoreThread, settings: Settings, pool: GetPool) -> None:
        self._reads = reads
        self._settings = settings
        self._pool = pool

    def operations(self) -> Operations:
        return {"relayers/{id}/why": {"GET": self.explain}}

    async def explain(self, request: Request) -> Content:
        name, probe = request.identifier, _wants_probe(request)
        stored, signer, seen = await self._reads.run(
            lambda store: (
                why.read(store.database.read, store.vault, name),
                read_signer_state(store.database.read, name),
                read_faults(self._settings.run_folder),
            )
        )
        interval, rounds = self._settings.monitor_interval_seconds, self._settings.monitor_rounds
        explanation = await why.explain(
            stored, self._pool, interval=interval, rounds=rounds, now=time.time(), probe=probe, seen=seen
        )
        return Content(with_signer(explanation, signer))


def _wants_probe(request: Request) -> bool:
    """Raises BadRequest."""
    given = request.read_query().get("probe", "true")
    if given not in ("true", "false"):
        raise BadRequest("probe must be true or false")
    return given == "true"
