"""`POST /admin/v1/relayers/{id}/estimate`: a fee estimate with every step. It changes nothing."""

import msgspec

from relaydeck.admin.bodies import EstimateRequest
from relaydeck.admin.operation import Content, Operations, Request
from relaydeck.admin.store_thread import StoreThread
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.report import report_estimate
from relaydeck.relayers.directory import RelayerDirectory


class EstimateOperation:
    def __init__(self, reads: StoreThread, estimator: Estimator) -> None:
        self._reads = reads
        self._estimator = estimator

    def operations(self) -> Operations:
        return {"relayers/{id}/estimate": {"POST": self.estimate}}

    async def estimate(self, request: Request) -> Content:
        name, asked = request.identifier, request.decode(EstimateRequest)
        relayer, network = await self._reads.run(lambda store: RelayerDirectory(store.database, store.vault).read(name))
        token = "" if asked.token is msgspec.UNSET else asked.token
        return Content(await report_estimate(self._estimator, relayer, network, asked.transaction, token))
