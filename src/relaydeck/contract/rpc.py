"""`POST /api/v1/relayers/{relayer_id}/rpc`: a JSON-RPC call through a relayer. `feeEstimate` is the only method."""

import re
import time
from collections.abc import Callable

import msgspec

from relaydeck.api.wire import FeeEstimateResult, RpcError, RpcRequest, RpcResponse
from relaydeck.errors import BadRequest, Damaged, RelayerNotFound, ServerFailure
from relaydeck.fees.errors import InvalidParams, RpcFailure
from relaydeck.fees.estimator import Estimator
from relaydeck.fees.model import FeeEstimateParams
from relaydeck.http.body import body_decoder, reason_of
from relaydeck.http.pipeline import Call, CatchUp, Reply, sender_of
from relaydeck.http.request import path_identifier
from relaydeck.relayers.directory import RelayerDirectory
from relaydeck.scope import Visible

METHOD_NOT_FOUND = RpcError(-32601, "Method not found", "feeEstimate is the only method.")
_NUMBER = re.compile(rb"-?[0-9]")
_decode_request = body_decoder(RpcRequest)
_decode_params = msgspec.json.Decoder(FeeEstimateParams).decode


# sentence: 4.5-call 4.5-not-found 7-method-failures
class RelayerRpc:
    def __init__(
        self,
        directory: RelayerDirectory,
        catch_up: CatchUp,
        estimator: Estimator,
        report: Callable[[BaseException], None],
        observe: Callable[[str, int], None],
    ) -> None:
        """`report` receives the cause of an unexpected failure; the caller learns only that there was one.

        `observe` receives the outcome of each estimate and the nanoseconds it took.
        """
        self._directory = directory
        self._catch_up = catch_up
        self._estimator = estimator
        self._report, self._observe = report, observe

    async def __call__(self, call: Call) -> Reply:
        relayer_id = path_identifier(call.argument)
        request: RpcRequest = _decode_request(call.headers, call.body)
        if not bytes(request.params).startswith(b"{"):
            raise BadRequest("params must be an object")
        response = await self._run(relayer_id, request, response_id(request.id), sender_of(call).visible)
        return Reply(200, msgspec.json.encode(response))

    async def _run(
        self, relayer_id: str, request: RpcRequest, answer_id: str | None, visible: Visible | None
    ) -> RpcResponse:
        """Raises RelayerNotFound. What goes wrong with a known method is an error in the response."""
        behind = self._catch_up()
        if behind is not None:
            await behind
        try:
            relayer, network = await self._directory.find(relayer_id)
        except Damaged as damage:
            if visible is not None:  # it may be outside, and must then look as unknown
                raise RelayerNotFound(relayer_id) from None
            raise ServerFailure(str(damage)) from None
        if visible is not None and not visible.has_relayer(relayer.id, relayer.network, relayer.labels):
            raise RelayerNotFound(relayer_id)
        if request.method != "feeEstimate":
            return RpcResponse(id=answer_id, error=METHOD_NOT_FOUND)
        started, outcome = time.perf_counter_ns(), "failed"
        try:
            estimate = await self._estimator.estimate(relayer, network, _params(request.params))
            outcome = "ok"
        except RpcFailure as failure:
            outcome = failure.outcome
            if failure.__cause__ is not None:
                self._report(failure.__cause__)
            return RpcResponse(id=answer_id, error=RpcError(failure.code, failure.message, failure.description))
        finally:
            self._observe(outcome, time.perf_counter_ns() - started)
        result = FeeEstimateResult(conversion_rate=estimate.conversion_rate, estimated_fee=estimate.estimated_fee)
        return RpcResponse(id=answer_id, result=result)


def _params(raw: msgspec.Raw) -> FeeEstimateParams:
    try:
        return _decode_params(raw)
    except msgspec.ValidationError as error:
        raise InvalidParams(reason_of(error)) from None


# sentence: 4.5-response
def response_id(raw: msgspec.Raw) -> str | None:
    """The id of a response: that of the request as a string, a number as the text that was sent, null for none."""
    sent = bytes(raw)
    if sent == b"null":
        return None
    if _NUMBER.match(sent):
        return sent.decode()
    if sent.startswith(b'"'):
        text: str = msgspec.json.decode(sent, type=str)
        return text
    raise BadRequest("id must be a string, a number or null")
