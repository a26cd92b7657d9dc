"""A worked example of each request and answer for the OpenAPI document. A test holds them to its schemas."""

from typing import Any

from relaydeck.contract.wire import FeeEstimateResult, NotificationUpdate, RpcError, RpcRequest, RpcResponse, Signer
from relaydeck.fees.model import FeeEstimateParams
from relaydeck.fields import example_of, own_names
from relaydeck.http.envelope import Metadata, Pagination
from relaydeck.notifications.model import Notification
from relaydeck.relayers.model import Relayer
from relaydeck.signers.signer_types import SHAPES, SHOWN_FIELDS


def signer_requests() -> dict[str, dict[str, Any]]:
    """A request for each type; the first is the one that the page shows."""
    ordered = sorted(SHAPES, key=lambda kind: kind != "provider_c")
    return {kind: {"id": f"{kind}-1", "type": kind, "config": example_of(SHAPES[kind])} for kind in ordered}


_METADATA = example_of(Metadata)
_SIGNER = example_of(Signer)
_RELAYER = {name: value for name, value in example_of(Relayer).items() if name not in own_names(Relayer)}

_PAGINATION = example_of(Pagination)


def _envelope(data: Any, **more: Any) -> dict[str, Any]:
    return {"data": data, "error": "", "metadata": _METADATA, **more, "success": True}


_REQUESTED = next(iter(signer_requests().values()))
_SHOWN = {name: value for name, value in _REQUESTED["config"].items() if name in SHOWN_FIELDS}
SIGNER_CREATED = _envelope({"id": _REQUESTED["id"], "type": _REQUESTED["type"], "config": _SHOWN})
SIGNERS_LISTED = _envelope([_SIGNER], pagination=_PAGINATION)
RELAYERS_LISTED = _envelope([_RELAYER], pagination=_PAGINATION)

NOTIFICATION_UPDATE = example_of(NotificationUpdate)
NOTIFICATION_UPDATED = _envelope(
    {name: value for name, value in example_of(Notification).items() if name != "signing_key"}
)

FEE_REQUEST = example_of(RpcRequest) | {"params": example_of(FeeEstimateParams)}
_ANSWERED = example_of(RpcResponse)
FEE_ANSWERS: dict[str, dict[str, Any]] = {
    "result": _ANSWERED | {"result": example_of(FeeEstimateResult)},
    "error": _ANSWERED | {"error": example_of(RpcError)},
}

PATH_IDS = {"notification_id": "pager", "relayer_id": "sepolia-1"}


def failure(message: str) -> dict[str, Any]:
    return {"data": None, "message": message, "success": False}
