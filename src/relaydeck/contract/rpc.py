"""The JSON-RPC call through a relayer: `feeEstimate` is the one method."""

from collections.abc import Callable

import msgspec

from relaydeck.contract.wire import FeeEstimateResult, RpcError, RpcResponse
from relaydeck.errors import ServerFailure
from relaydeck.fees.errors import InvalidParams, RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeEstimateParams
from relaydeck.http.decoding import reason_of
from relaydeck.http.pipeline import CatchUp
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.store.sealing import Damaged

_decode_params = msgspec.json.Decoder(FeeEstimateParams).decode
METHOD_NOT_FOUND = RpcError(-32601, "Method not found", "feeEstimate is the only method.")


class RelayerRpc:
    def __init__(
        self,
        directory: RelayerDirectory,
        catch_up: CatchUp,
        estimator: Estimator,
        report: Callable[[BaseException], None],
    ) -> None:
        """`report` is told the cause of a failure nobody foresaw; the caller is told only that there was one."""
        self._directory = directory
        self._catch_up = catch_up
        self._estimator = estimator
        self._report = report

    async def __call__(self, relayer_id: str, method: str, params: msgspec.Raw, answer_id: str | None) -> RpcResponse:
        behind = self._catch_up()
        if behind is not None:
            await behind
        try:
            relayer, network = await self._directory.find(relayer_id)
        except Damaged as damage:
            raise ServerFailure(str(damage)) from None
        if method != "feeEstimate":
            return RpcResponse(id=answer_id, error=METHOD_NOT_FOUND)
        try:
            estimate = await self._estimator.estimate(relayer, network, _params(params))
        except RpcFailure as failure:
            if failure.__cause__ is not None:
                self._report(failure.__cause__)
            return RpcResponse(id=answer_id, error=RpcError(failure.code, failure.message, failure.description))
        result = FeeEstimateResult(conversion_rate=estimate.conversion_rate, estimated_fee=estimate.estimated_fee)
        return RpcResponse(id=answer_id, result=result)


def _params(raw: msgspec.Raw) -> FeeEstimateParams:
    try:
        return _decode_params(raw)
    except msgspec.ValidationError as error:
        raise InvalidParams(reason_of(error)) from None
