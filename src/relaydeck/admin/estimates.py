"""`POST /admin/v1/relayers/{id}/estimate`: a fee estimate with every step. It changes nothing."""

import msgspec

from relaydeck.admin.bodies import EstimateRequest
from relaydeck.admin.read_pool import ReadPool
from relaydeck.admin.responses import Content, identifier_in_path, reply
from relaydeck.admin.routes import Methods
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.report import report_estimate
from relaydeck.http.decoding import body_decoder
from relaydeck.http.pipeline import Call, Reply
from relaydeck.relayers.directory import RelayerDirectory

_decode = body_decoder(EstimateRequest)


class EstimateOperation:
    def __init__(self, read_pool: ReadPool, estimator: Estimator) -> None:
        self._read_pool = read_pool
        self._estimator = estimator

    def routes(self) -> dict[str, Methods]:
        return {"relayers/{id}/estimate": {"POST": self.estimate}}

    async def estimate(self, call: Call) -> Reply:
        name, asked = identifier_in_path(call), _decode(call.headers, call.body)
        relayer, network = await self._read_pool.run(
            lambda store: RelayerDirectory(store.database, store.vault).read(name)
        )
        token = "" if asked.token is msgspec.UNSET else asked.token
        return reply(Content(await report_estimate(self._estimator, relayer, network, asked.transaction, token)))
